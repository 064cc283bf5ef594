// What limits the step, and the job it belongs to: shared by all reports.

#include <fmt/format.h>

#include <algorithm>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/hardware/device.hpp"
#include "whatif/rewrite/collective_transfer.hpp"

namespace foretrace::analysis {

namespace {

using graph::Graph;
using graph::TaskKind;

bool communicates(const Graph& g) {
  return std::any_of(g.kind.begin(), g.kind.end(), [](TaskKind k) { return k == TaskKind::kCollective; });
}

// By task; collectives of unknown size count as transfer as a whole.
std::vector<Ns> transfers(const trace::Trace& trace, const Graph& g) {
  std::vector<Ns> out;
  const auto match = hardware::device_of(trace);
  if (!match || !communicates(g)) return out;
  const whatif::CollectiveTransfers known(trace, match->device);
  out.assign(g.cost.begin(), g.cost.end());
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (g.kind[t] == TaskKind::kCollective) out[t] = known.of(g, t).value_or(g.cost[t]);
  }
  return out;
}

}  // namespace

StepVerdict step_verdict(const trace::Trace& trace, const Graph& traced, const Graph& unprofiled) {
  // The events of a graph that a file brings along are not those of the file.
  const bool embedded = !trace.metadata_value(kGraphKey).empty();
  const std::vector<Ns> moves = embedded ? std::vector<Ns>() : transfers(trace, traced);
  return {simulate::bottleneck(unprofiled, {}, moves), simulate::bottleneck(traced, {}, moves)};
}

std::optional<OneRank> one_rank_of_job(const trace::Trace& trace, const Graph& graph) {
  const trace::DistributedInfo& info = trace.distributed;
  const bool several = info.world_size > 1;
  if (!several && !communicates(graph)) return std::nullopt;
  OneRank out;
  if (info.rank != trace::kAbsent) out.rank = info.rank;
  if (several) out.ranks = info.world_size;
  return out;
}

std::string OneRank::sentence() const {
  const std::string of = ranks ? fmt::format("of {}", *ranks) : std::string("of a job");
  return fmt::format(
      "rank {}{} alone: the change is made on this rank only, and its waits for other ranks stay as recorded; "
      "`foretrace ranks` looks at all ranks",
      rank ? fmt::format("{} ", *rank) : "", of);
}

}  // namespace foretrace::analysis
