#pragma once
// The step as parts that are measured and vary differently: GPU work, CPU work, communication, waits. What each does to the step is found by
// simulation: BEFORE's step without the profiler, with AFTER's time of the part.

#include <vector>

#include "compare/noise.hpp"
#include "compare/profile.hpp"
#include "foretrace/compare/compare.hpp"

namespace foretrace::compare {

struct StepParts {
  std::vector<Part> parts;
  Estimate step;  ///< what all parts together do to the step
};
/// `copies`: the recordings are copies of one, so nothing in them is chance.
StepParts step_parts(const std::vector<Profile>& before, const std::vector<Profile>& after, bool copies);

/// How far the step of this graph moves, as log time, when its CPU time varies by `sigma`.
double follows_cpu(const graph::Graph& graph, double sigma);

/// Whether all work that both sides do takes the same time, or the same multiple of it, more exactly than two recordings can: one side is
/// a copy of the other, possibly stretched.
bool are_copies(const Profile& before, const Profile& after);

}  // namespace foretrace::compare
