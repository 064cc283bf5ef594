// Joins the graphs of all ranks. A collective becomes an arrival, a transfer that all arrivals start, and a tail for each rank. Waiting is
// then never a cost: it follows from when the others arrive, and changes when they do.

#include "ranks/job_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/workers.hpp"
#include "foretrace/graph/graph.hpp"
#include "hardware/figures.hpp"
#include "ranks/collectives.hpp"
#include "ranks/merge.hpp"

namespace foretrace::ranks {
namespace {

using graph::DependencyKind;
using graph::Graph;
using graph::TaskKind;

Result<Graph> build_one(const Job& job, const CommonStep& step, std::size_t rank) {
  graph::BuildOptions options;
  options.alone = true;  // ranks begin at different moments: the step is replayed as it happened, not as a period
  const trace::Trace& trace = job.ranks[rank].trace;
  return graph::GraphBuilder(trace, job.ranks[rank].steps, hardware::latencies_of(trace))
      .build(step.step[rank], options);
}

/// A collective to be added to the graph.
struct Plan {
  std::uint32_t collective;
  std::vector<std::uint32_t> own;  // per member: the task in its rank's own graph; kNone when the step does not hold it
  std::vector<std::uint32_t> task;  // per member: the same in the job's
};

class Builder {
 public:
  /// `binds`: ranks wait for each other; otherwise every collective keeps its measured time.
  Builder(const Job& job, const Matching& matching, const Clocks& clocks, bool binds, const JobGraphOptions& options,
          JobGraph& out)
      : job_(job), m_(matching), clocks_(clocks), out_(out), merger_(out.graph), binds_(binds), options_(options) {}

  using Failure = std::pair<std::uint32_t, Error>;  // rank

  /// Ranks whose graph cannot be built; then there is no graph of the job.
  std::vector<Failure> run(const CommonStep& step) {
    find_buffered();
    place_ranks(step);
    list_members();
    begin_job(step);
    std::vector<Failure> failures = copy_ranks(step);
    if (!failures.empty()) return failures;
    std::erase_if(plans_, [](const Plan& p) {
      return std::all_of(p.task.begin(), p.task.end(), [](std::uint32_t t) { return t == kNone; });
    });
    bind();
    merger_.finish();
    return {};
  }

 private:
  [[nodiscard]] Ns aligned(std::uint32_t rank, Ns on_trace) const {
    return clocks_.clocks[rank].aligned(job_.ranks[rank].trace.base_time_ns + on_trace);
  }

  // Whether a member waits for others at all.
  [[nodiscard]] bool waits(const Collective& c, std::uint32_t member) const {
    if (c.kind == CollectiveKind::kSendRecv) return member != c.root || buffered_[c.family] == 0;
    const Waits who = waits_of(c.kind);
    return who == Waits::kAll || (who == Waits::kOnRoot ? member != c.root : member == c.root);
  }

  // A send that fits into the library's buffers ends without its receiver. One that did so shows it for all of its family.
  void find_buffered() {
    buffered_.assign(m_.families, 0);
    for (const Collective& c : m_.collectives) {
      if (c.kind != CollectiveKind::kSendRecv) continue;
      const Member &sender = m_.members[c.first + c.root], &receiver = m_.members[c.first + 1 - c.root];
      if (clocks_.clocks[sender.rank].aligned(sender.end) < clocks_.clocks[receiver.rank].aligned(receiver.start))
        buffered_[c.family] = 1;
    }
  }

  // The job begins when its first rank does.
  void place_ranks(const CommonStep& step) {
    bool first = true;
    for (std::uint32_t r = 0; r < job_.ranks.size(); ++r) {
      if (step.step[r] == CommonStep::kNone) continue;
      const trace::Step& s = job_.ranks[r].steps.steps[step.step[r]];
      RankPart part;
      part.rank = r;
      part.step_start = aligned(r, s.start);
      part.step_end = aligned(r, s.end);
      part.trace_start = s.start;
      out_.begin = first ? part.step_start : std::min(out_.begin, part.step_start);
      first = false;
      out_.ranks.push_back(part);
    }
    Ns end = 0;
    for (RankPart& part : out_.ranks) {
      part.step_start -= out_.begin;
      part.step_end -= out_.begin;
      end = std::max(end, part.step_end);
    }
    out_.graph.traced = end;
    out_.graph.step_name = step.name;
  }

  void list_members() {
    split_.resize(job_.ranks.size());
    takes_part_.resize(job_.ranks.size());
    for (std::uint32_t k = 0; k < m_.collectives.size(); ++k) {
      const std::uint32_t count = m_.collectives[k].count;
      plans_.push_back({k, std::vector(count, kNone), std::vector(count, kNone)});
      for (std::uint32_t i = 0; i < count; ++i) {
        takes_part_[m_.members[m_.collectives[k].first + i].rank].emplace_back(k, i);
      }
    }
  }

  void begin_job(const CommonStep& step) {
    merger_.open_lane(graph::GraphLaneKind::kCpu, "job");
    begin_ = merger_.add_task(TaskKind::kBegin, 0, 0, step.name);
    end_ = merger_.add_task(TaskKind::kWait, 0, out_.graph.traced, "all ranks are done");
    merger_.close_lane();
    out_.graph.last = TaskId{end_};
    out_.rank_of_lane.push_back(kNone);
  }

  // Only as many graphs of single ranks are there at a time as are built at once.
  std::vector<Failure> copy_ranks(const CommonStep& step) {
    std::vector<Failure> failures;
    const std::size_t at_once = std::max(1u, thread_count(options_.threads));
    for (std::size_t first = 0; first < out_.ranks.size(); first += at_once) {
      const std::size_t count = std::min(at_once, out_.ranks.size() - first);
      std::vector<std::optional<Result<Graph>>> graphs(count);
      for_each_index(count, options_.threads,
                     [&](std::size_t i) { graphs[i] = build_one(job_, step, out_.ranks[first + i].rank); });
      for (std::size_t i = 0; i < count; ++i) {
        RankPart& part = out_.ranks[first + i];
        if (!*graphs[i]) {
          failures.emplace_back(part.rank, graphs[i]->error());
        } else if (failures.empty()) {
          copy_rank(**graphs[i], part);
          graphs[i].reset();
          if (options_.copied) options_.copied(out_.graph, part);
        }
        graphs[i].reset();
      }
    }
    return failures;
  }

  void copy_rank(const Graph& g, RankPart& part) {
    const std::uint32_t r = part.rank;
    split_[r].assign(g.size(), 0);
    std::unordered_map<std::uint32_t, std::uint32_t> task_of;  // event
    for (std::uint32_t t = 0; t < g.size(); ++t) {
      if (g.kind[t] == TaskKind::kCollective && g.event[t].valid()) task_of.emplace(g.event[t].value, t);
    }
    for (const auto& [k, i] : takes_part_[r]) {
      const Collective& c = m_.collectives[k];
      const auto it = task_of.find(m_.members[c.first + i].event);
      if (it == task_of.end()) continue;
      plans_[k].own[i] = it->second;
      if (binds_ && waits(c, i)) split_[r][it->second] = 1;
    }
    part.first_lane = static_cast<std::uint32_t>(out_.graph.lanes.size());
    merger_.copy(g, part.step_start, split_[r]);
    part.end_lane = static_cast<std::uint32_t>(out_.graph.lanes.size());
    out_.rank_of_lane.resize(part.end_lane, r);
    part.begin = TaskId{merger_.place(g.lanes[g.main_lane].begin)};
    part.last = TaskId{split_[r][g.last.index()] != 0 ? merger_.tail(g.last.value) : merger_.place(g.last.value)};
    // A late start is a cost of the rank's begin, so that a change of costs can take it away.
    out_.graph.cost[part.begin.index()] = part.step_start;
    out_.graph.measured[part.begin.index()] = 0;
    merger_.depend(begin_, part.begin.value, 0, DependencyKind::kBorder);
    merger_.depend(part.last.value, end_, 0, DependencyKind::kThread);
    for (const auto& [k, i] : takes_part_[r]) {
      if (plans_[k].own[i] != kNone) plans_[k].task[i] = merger_.place(plans_[k].own[i]);
    }
    merger_.add_notes(g.notes);
  }

  void bind() {
    // Groups' lanes, one after another; within a group in the order of meeting, so that lane order contradicts nothing.
    std::vector<std::pair<const Plan*, Rendezvous>> meetings;
    for (const Plan& plan : plans_) meetings.emplace_back(&plan, measure(plan));
    share_kernels(meetings);
    std::stable_sort(meetings.begin(), meetings.end(), [&](const auto& a, const auto& b) {
      const auto key = [&](const auto& x) {
        return std::pair(m_.collectives[x.second.collective].group, x.second.parts[x.second.last].start);
      };
      return key(a) < key(b);
    });
    std::uint32_t open_group = kNone;
    Ns free = 0;
    for (auto& [plan_of, meeting] : meetings) {
      const Plan& plan = *plan_of;
      const Collective& c = m_.collectives[plan.collective];
      if (!binds_) {
        out_.collectives.push_back(std::move(meeting));
        continue;
      }
      if (waits_of(c.kind) == Waits::kAll) {
        if (c.group != open_group) {
          if (open_group != kNone) merger_.close_lane();
          merger_.open_lane(graph::GraphLaneKind::kNetwork, m_.groups[c.group].name);
          out_.rank_of_lane.push_back(kNone);
          open_group = c.group;
          free = INT64_MIN;
        }
        bind_all(plan, meeting, free);
      } else {
        bind_rooted(plan, meeting);
      }
      out_.collectives.push_back(std::move(meeting));
    }
    if (open_group != kNone) merger_.close_lane();
  }

  // Members as measured; those the step does not hold too, for they may have arrived last.
  Rendezvous measure(const Plan& plan) {
    const Collective& c = m_.collectives[plan.collective];
    Rendezvous out;
    out.collective = plan.collective;
    for (std::uint32_t i = 0; i < c.count; ++i) {
      const Member& m = m_.members[c.first + i];
      const Clock& clock = clocks_.clocks[m.rank];
      Ns start = clock.aligned(m.start) - out_.begin;
      Ns end = clock.aligned(m.end) - out_.begin;
      if (plan.task[i] != kNone) {
        // A kernel from before the step counts from the step's begin on, as in the rank's own graph.
        start = std::max(start, out_.graph.measured[plan.task[i]]);
        end = std::max(end, start);
      }
      Rendezvous::Part part{m.rank, TaskId{}, TaskId{}, start, end, 0, 0};
      if (plan.task[i] != kNone) part.arrive = TaskId{plan.task[i]};
      out.parts.push_back(part);
      if (start > out.parts[out.last].start) out.last = i;
    }
    for (std::uint32_t i = 0; i < c.count; ++i) {
      Rendezvous::Part& p = out.parts[i];
      const Ns met = std::clamp(awaited(c, out, i), p.start, std::max(p.start, p.end));
      p.wait = met - p.start;
      p.transfer = p.end - met;
      if (binds_ && p.arrive.valid() && split_[p.rank][plan.own[i]] != 0)
        p.tail = TaskId{static_cast<std::uint32_t>(p.arrive.value + 1)};
    }
    return out;
  }

  // When the last one that member i waits for had arrived.
  [[nodiscard]] Ns awaited(const Collective& c, const Rendezvous& meeting, std::uint32_t i) const {
    if (!waits(c, i)) return meeting.parts[i].start;
    return waits_of(c.kind) == Waits::kOnRoot
               ? meeting.parts[c.kind == CollectiveKind::kSendRecv ? 1 - i : c.root].start
               : meeting.parts[meeting.last].start;
  }

  // The kernel of a batch waits for the last partner of all its messages; its time counts there.
  void share_kernels(std::vector<std::pair<const Plan*, Rendezvous>>& meetings) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, Rendezvous::Part*> longest;  // rank, arrival
    const auto each = [&](auto visit) {
      for (auto& [plan, meeting] : meetings) {
        if (m_.collectives[plan->collective].kind != CollectiveKind::kSendRecv) continue;
        for (Rendezvous::Part& p : meeting.parts) {
          if (p.arrive.valid()) visit(p, longest[{p.rank, p.arrive.value}]);
        }
      }
    };
    each([](Rendezvous::Part& p, Rendezvous::Part*& most) {
      if (most == nullptr || p.wait > most->wait) most = &p;
    });
    each([](Rendezvous::Part& p, Rendezvous::Part*& most) {
      p.counts = &p == most;
      p.transfer = most->transfer;
    });
  }

  // A tail's cost, and the arrival's, which has none.
  void set_tail(const Rendezvous::Part& p, Ns cost, Ns measured) {
    out_.graph.cost[p.arrive.index()] = 0;
    out_.graph.cost[p.tail.index()] = std::max<Ns>(0, cost);
    out_.graph.measured[p.tail.index()] = measured;
  }

  void bind_all(const Plan& plan, Rendezvous& meeting, Ns& free) {
    const Collective& c = m_.collectives[plan.collective];
    const Ns met = meeting.parts[meeting.last].start;
    Ns first_end = INT64_MAX;
    for (const Rendezvous::Part& p : meeting.parts) {
      if (p.end >= met) first_end = std::min(first_end, p.end);
    }
    const Ns transfer = std::max<Ns>(0, first_end - met);
    const std::uint32_t hub = merger_.add_task(TaskKind::kCollective, transfer, met, to_string(c.kind));
    meeting.hub = TaskId{hub};
    // Order on the lane is by sequence; it delays nothing the arrivals do not.
    if (free != INT64_MIN) out_.graph.lane_lag[hub] = std::min<Ns>(0, met - free);
    free = met + transfer;
    for (const Rendezvous::Part& p : meeting.parts) {
      if (!p.arrive.valid()) {
        merger_.depend(begin_, hub, std::max<Ns>(0, p.start), DependencyKind::kBorder);
        continue;
      }
      merger_.depend(p.arrive.value, hub, 0, DependencyKind::kCollective, 0);
      if (p.end < met) {  // no clock explains it: no dependency
        set_tail(p, p.end - p.start, p.start);
        continue;
      }
      merger_.depend(hub, p.tail.value, 0, DependencyKind::kCollective);
      set_tail(p, p.end - (met + transfer), met + transfer);
    }
  }

  void bind_rooted(const Plan& plan, const Rendezvous& meeting) {
    const Collective& c = m_.collectives[plan.collective];
    for (std::uint32_t i = 0; i < c.count; ++i) {
      const Rendezvous::Part& p = meeting.parts[i];
      if (!p.tail.valid()) continue;
      if (p.counts) set_tail(p, p.transfer, p.start + p.wait);
      if (!waits(c, i)) continue;
      for (std::uint32_t j = 0; j < c.count; ++j) {
        const Rendezvous::Part& other = meeting.parts[j];
        const bool pair = c.kind == CollectiveKind::kSendRecv;
        if (i == j || (!pair && waits_of(c.kind) == Waits::kOnRoot && j != c.root)) continue;
        // What the clocks cannot explain becomes no dependency.
        if (other.start > p.end) continue;
        if (other.arrive.valid()) {
          merger_.depend(other.arrive.value, p.tail.value, 0, DependencyKind::kCollective, 0);
        } else {
          merger_.depend(begin_, p.tail.value, std::max<Ns>(0, other.start), DependencyKind::kBorder);
        }
      }
    }
  }

  const Job& job_;
  const Matching& m_;
  const Clocks& clocks_;
  JobGraph& out_;
  Merger merger_;
  bool binds_;
  std::vector<char> buffered_;  // per family of sends
  const JobGraphOptions& options_;
  std::vector<std::vector<char>> split_;
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> takes_part_;  // per rank: collective, member
  std::vector<Plan> plans_;  // by collective, until those outside of the step are dropped
  std::uint32_t begin_ = 0, end_ = 0;
};

}  // namespace

Result<JobGraph> build_job_graph(const Job& job, const Matching& matching, const Clocks& clocks, const CommonStep& step,
                                 std::vector<std::string>& notes, const JobGraphOptions& options) {
  CommonStep left = step;
  for (std::size_t r = 0; r < left.step.size(); ++r) {
    if (left.step[r] != CommonStep::kNone) continue;
    notes.push_back(fmt::format("rank {} has no {}: when it arrived is taken from the trace where that shows it",
                                job.ranks[r].rank, step.name));
  }
  bool first = true;
  for (bool binds = true;;) {
    if (!std::exchange(first, false) && options.again) {
      FORETRACE_TRY_VOID(options.again());
    }
    if (std::all_of(left.step.begin(), left.step.end(), [](std::size_t s) { return s == CommonStep::kNone; })) {
      return fail(ErrorCode::kDeclined, fmt::format("no rank has work in {}", step.name),
                  "`foretrace doctor` shows what the traces hold");
    }
    JobGraph out;
    const std::vector<Builder::Failure> failures = Builder(job, matching, clocks, binds, options, out).run(left);
    for (const auto& [rank, error] : failures) {
      if (error.code == ErrorCode::kInternal) return tl::unexpected(error);
      notes.push_back(fmt::format("rank {} left out of {}: {}", job.ranks[rank].rank, step.name, error.message));
      left.step[rank] = CommonStep::kNone;
    }
    if (!failures.empty()) continue;
    Status sound = graph::verify(out.graph);
    if (sound) return out;
    if (!binds) return forward(sound);
    // Damaged times can put a rank's collectives in another order than the others'.
    notes.emplace_back("the collectives contradict the ranks' own order: in the replay no rank waits for another");
    binds = false;
  }
}

}  // namespace foretrace::ranks
