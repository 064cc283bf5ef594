#pragma once
// Compares recordings that were read already: shared by comparisons of one program and of a job.

#include <vector>

#include "compare/noise.hpp"
#include "compare/profile.hpp"
#include "foretrace/compare/compare.hpp"

namespace foretrace::compare {

/// A profile of each trace. An error names the file.
Result<std::vector<Profile>> read(const std::vector<const trace::Trace*>& traces, const Options& options,
                                  std::optional<double> measured_ms);

/// Everything but the verdict on a prediction. None of the sides is empty.
Comparison compare_recordings(const std::vector<Profile>& before, const std::vector<Profile>& after,
                              const Options& options);

/// How much the step of this graph varies between two recordings, by that figure of it.
Sigma step_noise(const graph::Graph& graph, DecidedBy decided);

}  // namespace foretrace::compare
