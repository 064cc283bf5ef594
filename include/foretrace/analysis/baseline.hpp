#pragma once
// Baseline: one step of a trace, ready for predictions. It is built once; every verb, the search and Python predict from it.
//
//   FORETRACE_TRY(const Baseline today, make_baseline(trace, {}, {}));      // the median step; the recorder's measurement
//   today.figures.unprofiled;      // ns: the step without the profiler
//   FORETRACE_TRY(const whatif::Use use, whatif::parse_use("fused-optimizer"));
//   predict(today, {use}).step;

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

/// What every report says about the step it starts from. Times in ns.
struct StepFigures {
  std::string file;
  std::string step_name;
  std::string device;
  Ns traced = 0;      ///< with the profiler, as the trace shows it
  Ns replayed = 0;    ///< the same, simulated
  Ns unprofiled = 0;  ///< without the profiler, with its 80 % band
  Ns unprofiled_low = 0, unprofiled_high = 0;
  std::optional<Ns> period;      ///< where the GPU lags behind the CPU: the time between the same work of two steps
  std::optional<Ns> measured;    ///< without the profiler, by the user or the recorder
  std::string measured_refused;  ///< why the recorder's measurement is not used; empty when it is, or there is none
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

/// `step`: the number in ProfilerStep#N; default the median step. `told`: what the user measured; default what the recorder
/// stored in the trace.
Result<Baseline> make_baseline(const trace::Trace& trace, std::optional<std::int64_t> step,
                               const host::UserMeasurements& told);
/// The same for a step whose graph is built already.
Result<Baseline> make_baseline(const trace::Trace& trace, const trace::Step& step, const graph::Graph& graph,
                               const host::UserMeasurements& told);

/// The step with all changes applied, in order: the one function that predicts, for every verb, the search and Python. The
/// prediction is scaled to the measured step where there is one. `declined` says so when a change does not apply.
whatif::Prediction predict(const Baseline& baseline, const std::vector<whatif::Use>& uses,
                           whatif::Detail detail = whatif::Detail::kFull);

// The graphs of a trace's steps: built from its events, or read from a file that `foretrace export` wrote, which holds the graph
// it shows.
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
  /// The default step: the median of those that are no ramp-up. There must be a step.
  [[nodiscard]] std::size_t median() const { return builder_ ? builder_->median() : 0; }
  /// Whether the graph was in the file. Its event ids are then those of the trace it was built from.
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
