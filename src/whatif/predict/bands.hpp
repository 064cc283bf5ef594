#pragma once
// The uncertainty of a prediction. Errors come in families that move together: the CPU's speed, the GPU's own spread between
// runs, measured kernels that were scaled, and each family of kernels whose time was modelled. One simulation per family, one
// standard deviation up and down; the deviations add in squares. How large they are is data (Residuals). No prediction is more certain
// than the step it starts from, as far as it depends on what is uncertain there, and no band is narrower than the spread of the
// recorded steps.

#include "base/percentiles.hpp"
#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "whatif/model/simulate_model.hpp"

namespace foretrace::whatif {

/// Residuals of steps captured as a CUDA graph, of the whole step.
inline constexpr std::string_view kLaunchFamily = "launches";
/// Kernels that no library has and whoever makes the change writes.
inline constexpr std::string_view kWrittenFamily = "written kernels";

/// What a trace leaves open, whatever the models are worth: reports say it without being asked.
inline constexpr std::string_view kRecordedStepsFamily = "recorded steps";
inline constexpr std::string_view kOneStepFamily = "one step";
inline constexpr std::string_view kStartupFamily = "start-up work";
inline constexpr std::string_view kUnknownGpuFamily = "unknown GPU";
constexpr bool is_of_trace(std::string_view family) {
  return family == kRecordedStepsFamily || family == kOneStepFamily || family == kStartupFamily ||
         family == kUnknownGpuFamily;
}

struct Band {
  Ns low = 0, high = 0;  ///< 10th and 90th percentile
  std::vector<BandPart> parts;
};

/// The band around a changed model, simulated by `runs`, whose step is `step`. `base` is the model before the change, whose
/// step is `today`.
Band band_around(const Model& changed, ModelRuns& runs, Ns step, const Model& base, Ns today);

}  // namespace foretrace::whatif
