#pragma once
// Baseline: what is known of one step before anybody asks for a change. It is built once, from the step's graph, and passed on
// to every verb, to the search and to Python; what-ifs change copies of its model.
//
//   FORETRACE_TRY(const Baseline base, make_baseline(trace, std::nullopt, 71.6));
//   base.figures.unprofiled;                                       // the step without the profiler
//   FORETRACE_TRY(const whatif::Use use, whatif::parse_use("fused-optimizer"));
//   predict(base, {use}).step;

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/analysis/step_graphs.hpp"
#include "foretrace/host/measured_step.hpp"
#include "foretrace/trace/trace.hpp"
#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::analysis {

/// What every report says of the step it starts from.
struct StepFigures {
  std::string file;
  std::string step_name;
  std::string device;
  Ns traced = 0, replayed = 0, unprofiled = 0, unprofiled_low = 0, unprofiled_high = 0;
  std::optional<Ns> period;  ///< where the GPU runs behind the CPU: the distance of the same work in two steps
  std::optional<Ns> measured;
  std::string measured_refused;  ///< why the figure the recorder stored is not used; empty when it is, or there is none
  std::optional<std::int64_t> peak_bytes;
  std::optional<std::int64_t> reserved_bytes;  ///< what the allocator took from the GPU for that peak
  std::optional<memory::Composition> peak_parts;
  double memory_gb = 0;  ///< of the GPU; 0 when unknown
  std::vector<whatif::FamilyTime> gpu_families;
};

struct Baseline {
  whatif::Model model;  ///< points to the trace, which must outlive it
  StepFigures figures;
};

/// `step`: its number, else the median step. `told`: a measured time, else what the recorder stored in the trace.
Result<Baseline> make_baseline(const trace::Trace& trace, std::optional<std::int64_t> step,
                               const host::UserMeasurements& told);
/// The same from a graph that is there already: that of `step`, built from the trace.
Result<Baseline> make_baseline(const trace::Trace& trace, const trace::Step& step, const graph::Graph& graph,
                               const host::UserMeasurements& told);

/// The model of a trace's step, ready for what-ifs. `replayed`: the step as the graph gives it unchanged.
Result<whatif::Model> make_model(const trace::Trace& trace, const trace::Step& step, const graph::Graph& graph,
                                 Ns replayed, std::optional<Ns> measured, const host::CpuPrior& prior = {});

/// Each text as a use of a what-if: "amp", "batch:x=2".
Result<std::vector<whatif::Use>> parse_uses(const std::vector<std::string>& texts);

/// All changes together, on the step as it was measured where it was.
whatif::Prediction predict(const Baseline& baseline, const std::vector<whatif::Use>& uses,
                           whatif::Detail detail = whatif::Detail::kFull);

}  // namespace foretrace::analysis
