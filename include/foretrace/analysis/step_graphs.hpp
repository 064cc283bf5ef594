#pragma once
// The graphs of a trace's steps, wherever they come from: built from its events, or read back from a file that
// `foretrace export` wrote, which holds the graph it shows.
//
//   FORETRACE_TRY(const StepGraphs graphs, StepGraphs::open(trace, trace::find_steps(trace)));
//   FORETRACE_TRY(const graph::Graph graph, graphs.graph(graphs.median()));

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "foretrace/base/result.hpp"
#include "foretrace/graph/build.hpp"
#include "foretrace/trace/steps.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::analysis {

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
  /// The step of that number, else the median one. Fails when there is no such step (kUsage) or none at all (kDeclined).
  [[nodiscard]] Result<std::size_t> choose(std::optional<std::int64_t> number) const;
  /// Whether the graph was in the file. Its event ids then speak of the trace it was once built from.
  [[nodiscard]] bool embedded() const { return embedded_.has_value(); }
  /// Declined when the step holds no work. A graph that was in the file is given as it is, whatever the options.
  [[nodiscard]] Result<graph::Graph> graph(std::size_t step, const graph::BuildOptions& options = {}) const;

 private:
  StepGraphs(std::string file, trace::Steps steps)
      : file_(std::move(file)), steps_(std::make_unique<trace::Steps>(std::move(steps))) {}

  std::string file_;                     // for errors
  std::unique_ptr<trace::Steps> steps_;  // the builder points to it
  std::optional<graph::Graph> embedded_;
  std::optional<graph::GraphBuilder> builder_;
};

/// The graph an exported file holds; an error when it holds none.
Result<graph::Graph> embedded_graph(const trace::Trace& trace);

}  // namespace foretrace::analysis
