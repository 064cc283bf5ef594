#pragma once
// Pipelines: which ranks are the stages, in which order, how many micro-batches there are, and in which order their forward and
// backward passes ran. Derived from the messages of one step, and the computation around them.

#include <cstdint>
#include <vector>

#include "foretrace/ranks/job.hpp"
#include "ranks/collectives.hpp"
#include "ranks/program_order.hpp"

namespace foretrace::ranks {

/// Ranks that messages of one group tie together.
struct Chain {
  std::uint32_t group = 0;
  bool ring = false;                 ///< all send and receive at once: no stages
  std::vector<std::int64_t> stages;  ///< ranks of the job, the first stage first
  PipelineShape shape;
};

std::vector<Chain> find_chains(const Job& job, const Matching& matching, const ProgramOrder& order);

}  // namespace foretrace::ranks
