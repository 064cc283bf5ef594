#pragma once
// Baseline: what is known of one step before anybody asks for a change. It is built once, from the step's graph, and passed on
// to every verb, to the search and to Python; what-ifs change copies of its model.
//
//   FORETRACE_TRY(const Baseline base, make_baseline(trace, std::nullopt, 71.6));
//   base.figures.unprofiled;                                       // the step without the profiler
//   FORETRACE_TRY(const whatif::Use use, whatif::parse_use("fused-optimizer"));
//   predict(base, {use}).step;

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/host/measured_step.hpp"
#include "foretrace/trace/steps.hpp"
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

/// All changes together, on the step as it was measured where it was.
whatif::Prediction predict(const Baseline& baseline, const std::vector<whatif::Use>& uses,
                           whatif::Detail detail = whatif::Detail::kFull);

/// Each change alone, or all together when `stacked`.
std::vector<whatif::Prediction> predict_each(const Baseline& baseline, const std::vector<whatif::Use>& uses,
                                             bool stacked);

// The graphs of a trace's steps, wherever they come from: built from its events, or read back from a file that
// `foretrace export` wrote, which holds the graph it shows.
//
//   FORETRACE_TRY(const StepGraphs graphs, StepGraphs::open(trace, trace::find_steps(trace)));
//   FORETRACE_TRY(const graph::Graph graph, graphs.graph(graphs.median()));

/// The top-level key of an exported file that holds the text form of its graph.
inline constexpr std::string_view kGraphKey = "foretraceGraph";

class StepGraphs {
 public:
  /// The trace must outlive the result. Fails when the file claims to hold a graph and it cannot be read.
  static Result<StepGraphs> open(const trace::Trace& trace, trace::Steps steps);

  /// The steps of the trace; of an exported file, the one it shows.
  [[nodiscard]] const trace::Steps& steps() const { return *steps_; }
  /// The step a verb speaks of by default: the median one that is no ramp-up. There must be a step.
  [[nodiscard]] std::size_t median() const { return builder_ ? builder_->median() : 0; }
  /// Whether the graph was in the file. Its event ids then speak of the trace it was once built from.
  [[nodiscard]] bool embedded() const { return embedded_.has_value(); }
  /// Declined when the step holds no work. A graph that was in the file is given as it is, whatever the options.
  [[nodiscard]] Result<graph::Graph> graph(std::size_t step, const graph::BuildOptions& options = {}) const;

 private:
  explicit StepGraphs(trace::Steps steps) : steps_(std::make_unique<trace::Steps>(std::move(steps))) {}

  std::unique_ptr<trace::Steps> steps_;  // the builder points to it
  std::optional<graph::Graph> embedded_;
  std::optional<graph::GraphBuilder> builder_;
};

/// The graph an exported file holds; an error when it holds none.
Result<graph::Graph> embedded_graph(const trace::Trace& trace);

}  // namespace foretrace::analysis
