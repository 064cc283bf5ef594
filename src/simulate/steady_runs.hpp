#pragma once
// One graph in steady state under many costs: what does not depend on them is computed once.
//
//   SteadyRuns runs(graph);
//   runs.run({}).timeline.step;      // as it is
//   runs.run(slower).timeline.step;  // and with other costs: no graph is repeated again

#include <array>
#include <optional>
#include <span>

#include "foretrace/simulate/simulate.hpp"

namespace foretrace::simulate {

class SteadyRuns {
 public:
  /// What the options name must outlive it, and so must the graph; their costs are not looked at.
  explicit SteadyRuns(const graph::Graph& graph, const Options& options = {});

  struct Run {
    Timeline& timeline;         ///< until the next run
    const graph::Graph& graph;  ///< the timeline's: the graph, or copies of it in a row
    std::uint32_t copies = 1;
    bool settled = true;
  };
  /// As steady_state; `cost` instead of the graph's own, where given.
  Run run(std::span<const Ns> cost);

 private:
  friend SteadyState steady_state(const graph::Graph& graph, const Options& options);
  struct Row {
    std::uint32_t copies = 0;
    graph::Graph graph = {};
    Contention contention = {};
  };
  const Row& row_of(std::size_t length);
  [[nodiscard]] std::span<const Ns> repeated(std::span<const Ns> cost, std::uint32_t copies);

  const graph::Graph& graph_;
  Options options_;
  std::array<std::optional<Row>, 2> rows_;  ///< the graph three and eight times in a row, once somebody needs it
  Timeline timeline_;
  std::vector<Ns> cost_;
};

}  // namespace foretrace::simulate
