#pragma once
// One step of a job, with its clocks aligned and its ranks simulated together: what `ranks` and its exporter start from.

#include <string>
#include <vector>

#include "foretrace/analysis/ranks.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "ranks/collectives.hpp"
#include "ranks/common_steps.hpp"
#include "ranks/job_graph.hpp"
#include "ranks/job_kind.hpp"
#include "ranks/loading_ranges.hpp"
#include "ranks/program_order.hpp"

namespace foretrace::analysis {

struct RanksStep {
  ranks::Matching matching;
  ranks::Clocks clocks;
  ranks::CommonSteps steps;
  std::size_t chosen = 0;
  ranks::JobGraph graph;
  ranks::ProgramOrder order;
  std::vector<ranks::LoadingRanges> loading;  ///< by rank of the job
  ranks::JobKind kind;
  simulate::Timeline timeline;
  std::vector<simulate::PathStep> path;  ///< the critical path over all ranks
  std::vector<std::string> notes;
};
Result<RanksStep> ranks_step(const ranks::Job& job, const RanksOptions& options = {});

}  // namespace foretrace::analysis
