#pragma once
// The step as parts that are measured and vary differently: GPU work, CPU work, communication, waits. What each does to the step is found by
// simulation: BEFORE's step without the profiler, with AFTER's time of the part.

#include <optional>
#include <vector>

#include "compare/noise.hpp"
#include "compare/profile.hpp"
#include "foretrace/compare/compare.hpp"

namespace foretrace::compare {

/// Names of parts that are a rank's own work.
inline constexpr const char* kGpuPart = "GPU work";
inline constexpr const char* kCpuPart = "CPU work";

struct StepParts {
  std::vector<Part> parts;
  Estimate step;  ///< what all parts together do to the step
  /// What the parts do to it that changed beyond their own noise; the others are taken as unchanged. Nothing where there is none.
  std::optional<Estimate> certain;
};
/// `copies`: the recordings are copies of one, so nothing in them is chance.
StepParts step_parts(const std::vector<Profile>& before, const std::vector<Profile>& after, bool copies);

/// How far the step of this graph moves, as log time, when what the host decides (CPU time, collectives) varies by `sigma`.
double follows_host(const graph::Graph& graph, double sigma);

/// Whether all work that both sides do takes the same time, or the same multiple of it, more exactly than two recordings can: one side is
/// a copy of the other, possibly stretched.
bool are_copies(const Profile& before, const Profile& after);

}  // namespace foretrace::compare
