#pragma once
// Which steps of different ranks are the same step of the job: by number where the profiler numbered them on all ranks, else
// by when they happened, on aligned clocks.

#include <cstdint>
#include <string>
#include <vector>

#include "foretrace/ranks/job.hpp"
#include "ranks/collectives.hpp"

namespace foretrace::ranks {

struct CommonStep {
  std::string name;
  std::int64_t number = 0;        ///< the profiler's; else the place among the steps
  std::vector<std::size_t> step;  ///< per rank an index into its steps; kNone: the rank has no such step
  std::uint64_t collectives = 0;  ///< matched ones whose launch is in it
  static constexpr std::size_t kNone = SIZE_MAX;
};

struct CommonSteps {
  std::vector<CommonStep> steps;  ///< those at least two ranks have (or the only rank), by number
  bool by_number = true;
  std::vector<std::string> notes;  ///< ranks that lack steps others have
};
CommonSteps common_steps(const Job& job, const Matching& matching, const Clocks& clocks);

/// Of the steps most ranks have, with most of their collectives: the lower median by length on aligned clocks.
std::size_t median_step(const Job& job, const Clocks& clocks, const CommonSteps& steps);

}  // namespace foretrace::ranks
