// The step of a job with changes made, simulated on all ranks together: for exporters, which draw it.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "analysis/ranks_step.hpp"
#include "foretrace/overview/overview.hpp"
#include "graph/gpu_work.hpp"
#include "ranks/intervals.hpp"
#include "whatif/job/job_models.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::overview {
namespace {

using graph::Graph;
using graph::TaskKind;
using whatif::Joint;

// What a communication kernel of the recorded step is there for.
struct Purpose {
  std::string name;  // "dp all-reduce"
  bool receives = false;
};
using Purposes = std::map<std::pair<std::uint32_t, std::uint32_t>, Purpose>;  // by rank (index into the job) and event

Purposes purposes_of(const analysis::RanksStep& step) {
  Purposes out;
  for (const ranks::Rendezvous& meeting : step.graph.collectives) {
    const ranks::Collective& c = step.matching.collectives[meeting.collective];
    const ranks::Parallelism purpose = step.kind.purpose(c.group, 1u << static_cast<std::uint32_t>(c.kind));
    const std::span<const ranks::Member> members = step.matching.of(c);
    for (std::uint32_t i = 0; i < members.size(); ++i) {
      Purpose& one = out[{members[i].rank, members[i].event}];
      one.name = fmt::format("{} {}", to_string(purpose), to_string(c.kind));
      one.receives |= c.kind == ranks::CollectiveKind::kSendRecv && i != c.root;
    }
  }
  return out;
}

// The event of each task of the joined graph, in its own rank's trace. Joining keeps the order of a rank's tasks; a collective that
// waits is two tasks there.
std::vector<EventId> events_of(const whatif::JobModels& job, const Graph& joined) {
  std::vector<EventId> out(joined.size());
  std::vector<char> arrives(joined.size(), 0);
  for (const std::vector<Joint>& collective : job.collectives) {
    for (const Joint& j : collective) arrives[j.arrive] = 1;
  }
  std::vector<std::uint32_t> next(job.ranks.size(), 0);
  for (std::uint32_t l = 0; l < joined.lanes.size(); ++l) {
    const std::uint32_t slot = job.slot_of_lane[l];
    if (slot == kNone) continue;
    const Graph& own = job.ranks[slot]->graph;
    for (std::uint32_t t = joined.lanes[l].begin; t < joined.lanes[l].end && next[slot] < own.size(); ++t) {
      out[t] = own.event[next[slot]];
      if (arrives[t] == 0) ++next[slot];
    }
  }
  return out;
}

ranks::Intervals computing(const ChangedJob& job, const ChangedJob::Rank& rank) {
  ranks::Intervals out;
  const Graph& g = job.step.graph;
  for (const std::uint32_t l : rank.lanes) {
    for (std::uint32_t t = g.lanes[l].begin; t < g.lanes[l].end; ++t) {
      if (g.kind[t] == TaskKind::kKernel) out.emplace_back(job.step.start(t), job.step.end(t));
    }
  }
  return ranks::united(std::move(out));
}

void find_meetings(ChangedJob& out, const whatif::JobModels& joined, const Purposes& purposes) {
  const std::vector<EventId> events = events_of(joined, out.step.graph);
  std::vector<std::uint32_t> rank_of_slot(joined.ranks.size(), 0);
  for (std::uint32_t r = 0; r < joined.ties->slot_of_rank.size(); ++r) {
    if (joined.ties->slot_of_rank[r] != kNone) rank_of_slot[joined.ties->slot_of_rank[r]] = r;
  }
  std::vector<ranks::Intervals> receives(out.ranks.size());
  std::vector<char> seen(out.step.graph.size(), 0);
  for (const std::vector<Joint>& collective : joined.collectives) {
    ChangedJob::Meeting meeting;
    for (const Joint& j : collective) {
      if (seen[j.arrive] != 0) continue;  // a kernel with several messages
      seen[j.arrive] = 1;
      meeting.members.push_back({j.slot, j.arrive, j.tail, j.transfer});
      const auto at = purposes.find({rank_of_slot[j.slot], events[j.arrive].value});
      if (at == purposes.end()) continue;
      meeting.name = at->second.name;
      if (at->second.receives) receives[j.slot].emplace_back(out.step.start(j.arrive), out.step.end(j.tail));
    }
    if (!meeting.members.empty()) out.meetings.push_back(std::move(meeting));
  }
  for (std::uint32_t s = 0; s < out.ranks.size(); ++s) {
    out.ranks[s].bubble = ranks::without(ranks::united(std::move(receives[s])), computing(out, out.ranks[s]));
  }
}

}  // namespace

Result<ChangedJob> changed_job(const ranks::Job& job, std::optional<std::int64_t> number,
                               const std::vector<std::string>& whatifs, const std::vector<std::int64_t>& only) {
  FORETRACE_TRY(const std::vector<whatif::Use> uses, analysis::parse_uses(whatifs));
  FORETRACE_TRY(const analysis::RanksStep recorded, analysis::ranks_step(job, {.step = number}));
  FORETRACE_TRY(const analysis::Baseline baseline, analysis::make_baseline(job, number, std::nullopt, only));
  return changed_job(baseline, recorded, uses);
}

Result<ChangedJob> changed_job(const analysis::Baseline& baseline, const analysis::RanksStep& recorded,
                               const std::vector<whatif::Use>& uses) {
  FORETRACE_TRY_VOID(whatif::Predictor::check(baseline.model, !uses.empty()));
  FORETRACE_TRY(whatif::Model changed, whatif::apply_uses(baseline.model, uses));
  const std::shared_ptr<const whatif::JobModels> joined = changed.job;
  ChangedJob out{analysis::replay_step(std::move(changed.graph)), {}, {}, recorded.kind.pipeline.has_value()};
  std::vector<std::string> texts;
  for (const whatif::Use& use : uses) texts.push_back(use.text);
  out.step.graph.step_name = fmt::format("{} with {}", baseline.figures.step_name, fmt::join(texts, ","));
  for (const std::int64_t rank : joined->ties->numbers) out.ranks.push_back({rank, {}, {}});
  for (std::uint32_t l = 0; l < joined->slot_of_lane.size(); ++l) {
    if (joined->slot_of_lane[l] != kNone) out.ranks[joined->slot_of_lane[l]].lanes.push_back(l);
  }
  find_meetings(out, *joined, purposes_of(recorded));
  return out;
}

}  // namespace foretrace::overview
