#include "whatif/job/reschedule.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "trace/latencies.hpp"
#include "whatif/job/pipeline_memory.hpp"
#include "whatif/rewrite/scaling.hpp"

namespace foretrace::whatif {

namespace {

using simulate::ActionKind;
using simulate::ScheduleKind;

constexpr std::string_view kNotPlain = "the recorded schedule is none of 1f1b and gpipe with one stage per rank";

/// Runs one rank's passes in another order.
class Rewriter {
 public:
  Rewriter(Model& model, Draft& draft, const PipelinePasses& was, std::uint32_t micro_batches)
      : m_(model), g_(model.graph), d_(draft), was_(was), micro_batches_(micro_batches) {
    last_.assign(g_.lanes.size(), kNone);
    for (const Pass& pass : was_.passes) {
      for (const std::uint32_t t : pass.tasks) last_[g_.lane[t]] = std::max(latest(g_.lane[t]), t);
    }
    stream_ = was_.messages.front();
    for (const std::uint32_t t : was_.messages) {
      if (g_.lane[t] == g_.lane[stream_]) stream_ = std::max(stream_, t);
    }
    std::vector<Ns> costs;
    for (const std::uint32_t t : was_.messages) costs.push_back(d_.cost(t));
    std::nth_element(costs.begin(), costs.begin() + static_cast<std::ptrdiff_t>(costs.size() / 2), costs.end());
    message_ns_ = costs[costs.size() / 2];
  }

  void run(const std::vector<simulate::PipelineAction>& actions, std::uint32_t before_forward,
           std::uint32_t behind_forward, std::uint32_t before_backward, std::uint32_t behind_backward) {
    for (const simulate::PipelineAction& a : actions) {
      const bool backward = a.kind != ActionKind::kForward;
      const std::size_t like = was_.like(backward, a.microbatch, micro_batches_);
      const std::uint32_t receive = message(backward ? before_backward : before_forward);
      const auto [first, last] = copy(like, a.microbatch + 1 == micro_batches_);
      if (receive != kNone) d_.depend(receive, first, m_.latencies->stream_hand_over, DependencyKind::kStreamWait);
      const std::uint32_t send = message(backward ? behind_backward : behind_forward);
      if (send != kNone) d_.depend(last, send, m_.latencies->collective_start, DependencyKind::kStreamWait);
    }
    for (const Pass& pass : was_.passes) d_.remove(pass.tasks);
    d_.remove(was_.messages);
  }

 private:
  [[nodiscard]] std::uint32_t latest(std::uint32_t lane) const { return last_[lane] == kNone ? 0 : last_[lane]; }

  // A send or a receive behind what the rank's CPU did so far. Sends do not hold up what comes behind them.
  std::uint32_t message(std::uint32_t event) {
    if (event == kNone) return kNone;
    const std::uint32_t main = g_.main_lane;
    const Place at = d_.insert({.name = "message of a micro-batch",
                                .cost = message_ns_,
                                .phase = Phase::kCommunication,
                                .kind = TaskKind::kCollective,
                                .after = {last_[main], stream_},
                                .origin = graph::Origin::kScaled,
                                .event = EventId{event}});
    last_[main] = at.cpu;
    stream_ = at.gpu;
    return at.gpu;
  }

  struct Ends {
    std::uint32_t first, last;
  };

  Ends copy(std::size_t like, bool last_of_all) {
    const Pass& pass = was_.passes[like];
    std::vector<std::uint32_t> behind;
    for (const std::uint32_t t : last_) {
      if (t != kNone) behind.push_back(t);
    }
    const std::vector<std::uint32_t> copies = d_.clone(pass.tasks, behind);
    std::map<std::uint32_t, std::uint32_t> copy_of;
    for (std::size_t k = 0; k < copies.size(); ++k) {
      copy_of[pass.tasks[k]] = copies[k];
      last_[g_.lane[pass.tasks[k]]] = copies[k];
    }
    keep_outer_dependencies(copy_of, last_of_all);
    return {copy_of.at(pass.first_gpu), copy_of.at(pass.last_gpu)};
  }

  // What waits for the passes waits for the last ones; what a pass waits for from before all of them, each waits for.
  void keep_outer_dependencies(const std::map<std::uint32_t, std::uint32_t>& copy_of, bool last_of_all) {
    if (inside_.empty()) find_inside();
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      const bool from_here = copy_of.contains(t);
      if (inside_[t] != 0 && !from_here) continue;
      for (std::uint32_t d = g_.dep_begin[t]; d < g_.dep_begin[t + 1]; ++d) {
        const std::uint32_t to = g_.dep_to[d];
        if (g_.dep_kind[d] == DependencyKind::kShare || g_.dep_kind[d] == DependencyKind::kLaunch) continue;
        if (from_here && last_of_all && inside_[to] == 0) {
          d_.depend(copy_of.at(t), to, g_.dep_lag[d], g_.dep_kind[d], g_.dep_point[d]);
        } else if (!from_here && copy_of.contains(to)) {
          d_.depend(t, copy_of.at(to), g_.dep_lag[d], g_.dep_kind[d], g_.dep_point[d]);
        }
      }
    }
  }

  void find_inside() {
    inside_.assign(g_.size(), 0);
    for (const Pass& pass : was_.passes) {
      for (const std::uint32_t t : pass.tasks) inside_[t] = 1;
    }
    for (const std::uint32_t t : was_.messages) inside_[t] = 1;
  }

  Model& m_;
  const Graph& g_;
  Draft& d_;
  const PipelinePasses& was_;
  std::uint32_t micro_batches_;
  std::vector<std::uint32_t> last_;  // by lane: what is put there goes behind it
  std::uint32_t stream_;             // the last message
  Ns message_ns_ = 0;
  std::vector<char> inside_;
};

}  // namespace

Result<Reschedule> Reschedule::make(const JobModels& job, std::uint32_t micro_batches,
                                    std::optional<ScheduleKind> schedule) {
  Reschedule out;
  FORETRACE_TRY_VOID(out.read_ranks(job));
  out.after_ = {schedule.value_or(out.before_.schedule), micro_batches > 0 ? micro_batches : out.before_.micro_batches};
  FORETRACE_TRY(out.schedule_,
                simulate::make_pipeline_schedule({out.after_.schedule, out.stages_, out.after_.micro_batches, 1}));
  FORETRACE_TRY_VOID(out.tie(job));
  return out;
}

Status Reschedule::read_ranks(const JobModels& job) {
  const std::vector<std::vector<MessageEnd>> ends = message_ends(*job.ties);
  bool any = false, forward_first = true;
  for (std::uint32_t s = 0; s < job.ranks.size(); ++s) {
    std::vector<std::uint32_t> events;
    for (const MessageEnd& e : ends[s]) events.push_back(e.event);
    if (events.empty()) return fail(ErrorCode::kDeclined, "the job is no pipeline: not all ranks send and receive");
    FORETRACE_TRY(PipelinePasses passes, find_passes(job.ranks[s]->graph, events));
    const bool same = !any || passes.micro_batches == before_.micro_batches;
    if (!same) return fail(ErrorCode::kDeclined, std::string(kNotPlain));
    before_.micro_batches = passes.micro_batches;
    stages_ = std::max(stages_, job.ties->stage[s] + 1);
    forward_first = forward_first && passes.forward_first;
    any = true;
    ranks_.push_back({job.ties->stage[s], std::move(passes)});
  }
  if (stages_ < 2) return fail(ErrorCode::kDeclined, "the job is no pipeline");
  before_.schedule = forward_first ? ScheduleKind::kGpipe : ScheduleKind::kOneForwardOneBackward;
  return {};
}

// Messages get the events of recorded kernels, one for each direction, so that the ranks know theirs.
Status Reschedule::tie(const JobModels& job) {
  auto ties = std::make_shared<JobTies>(*job.ties);
  const std::vector<std::vector<MessageEnd>> ends = message_ends(*job.ties);
  std::erase_if(ties->meetings, carries_a_message);
  std::vector<std::vector<std::uint32_t>> free(ranks_.size());
  std::vector<std::set<std::uint32_t>> neighbours(ranks_.size());
  for (std::size_t s = 0; s < ranks_.size(); ++s) {
    for (const std::uint32_t t : ranks_[s].passes.messages) free[s].push_back(job.ranks[s]->graph.event[t].value);
    std::reverse(free[s].begin(), free[s].end());
    for (const MessageEnd& e : ends[s]) neighbours[s].insert(e.partner);
  }
  std::vector<std::uint32_t> rank_of(ranks_.size(), kNone);
  for (std::uint32_t r = 0; r < ties->slot_of_rank.size(); ++r) {
    if (ties->slot_of_rank[r] != kNone) rank_of[ties->slot_of_rank[r]] = r;
  }
  bool enough = true;
  const auto take = [&](std::size_t slot) {
    if (free[slot].empty()) {
      enough = false;
      return kNone;
    }
    const std::uint32_t event = free[slot].back();
    free[slot].pop_back();
    return event;
  };
  const auto connect = [&](std::uint32_t from, std::uint32_t& sends, std::uint32_t to, std::uint32_t& receives) {
    sends = take(from);
    receives = take(to);
    Meeting m{Awaited::kPartner, 0, {}};
    m.members.push_back({rank_of[from], sends, 0, false, true});
    m.members.push_back({rank_of[to], receives, 0, true, true});
    ties->meetings.push_back(std::move(m));
  };
  for (std::uint32_t s = 0; s < ranks_.size(); ++s) {
    for (const std::uint32_t next : neighbours[s]) {
      if (ranks_[next].stage != ranks_[s].stage + 1) continue;
      connect(s, ranks_[s].to_next, next, ranks_[next].from_previous);
      connect(next, ranks_[next].to_previous, s, ranks_[s].from_next);
    }
  }
  if (!enough)
    return fail(ErrorCode::kDeclined, "too few messages were recorded to tell those of a new schedule apart");
  ties_ = std::move(ties);
  return {};
}

Status Reschedule::apply(std::size_t slot, Model& model, Draft& draft) const {
  const Rank& rank = ranks_[slot];
  const double x = static_cast<double>(before_.micro_batches) / after_.micro_batches;
  const std::optional<memory::Curve> today = model.memory;
  if (x != 1) scale_batch(model, draft, x);
  if (today) {
    model.memory = rescheduled_memory(model, *today, rank.passes, schedule_.ranks[rank.stage], after_.micro_batches);
  }
  Rewriter(model, draft, rank.passes, after_.micro_batches)
      .run(schedule_.ranks[rank.stage], rank.from_previous, rank.to_next, rank.from_next, rank.to_previous);
  return {};
}

}  // namespace foretrace::whatif
