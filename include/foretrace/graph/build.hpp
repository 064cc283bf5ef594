#pragma once
// From a trace to the graph of one step.

#include <memory>
#include <set>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/trace/steps.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::graph {

class TraceIndex;

struct BuildOptions {
  /// Families left out, for ablation: their edges go, waits stay out of the costs. kLane cannot be left out.
  std::set<DependencyKind> without;
  bool device_gaps = true;  ///< false: tasks of a stream follow each other without the device's own gap (ablation)
  /// GPU tasks that started more than 20 µs after everything known to hold them back start after the usual distance
  /// instead: what no rule explains then shows as an error of the replay rather than being kept as measured.
  bool strict = false;
  /// The step as it happened, once: work from before it keeps its measured place even where the step could be repeated.
  bool alone = false;
};

/// How a step follows the one before it.
struct StepPace {
  Ns period = 0;         ///< see Graph::period
  bool behind = false;   ///< its work on the GPU outlives its range: the GPU runs behind the CPU
  bool ramp_up = false;  ///< see Graph::ramp_up
};

/// Builds graphs of a trace's steps; sorts and links the trace once, however many steps are asked for. The trace must
/// outlive it.
class GraphBuilder {
 public:
  GraphBuilder(const trace::Trace& trace, const trace::Steps& steps);
  ~GraphBuilder();
  GraphBuilder(GraphBuilder&&) noexcept;
  GraphBuilder& operator=(GraphBuilder&&) noexcept;

  /// The graph of step `index`. Declined when the step holds no work.
  Result<Graph> build(std::size_t index, const BuildOptions& options = {}) const;
  [[nodiscard]] const StepPace& pace(std::size_t index) const { return paces_[index]; }
  /// The default step of a verb: the median by length of those that are no ramp-up (of all, when all are); of an even count
  /// the lower one. There must be a step.
  [[nodiscard]] std::size_t median() const;

 private:
  const trace::Trace* trace_;
  const trace::Steps* steps_;
  std::unique_ptr<TraceIndex> index_;
  std::vector<StepPace> paces_;
};

/// `graph` n times in a row: streams, threads and launch queues continue from one copy to the next.
Graph repeat(const Graph& graph, std::uint32_t copies);

}  // namespace foretrace::graph
