#pragma once
// Copying graphs of single ranks into one. The caller says which tasks are split; the merger keeps lanes dense and maps
// every dependency.

#include <cstdint>
#include <vector>

#include "foretrace/graph/graph.hpp"

namespace foretrace::ranks {

class Merger {
 public:
  explicit Merger(graph::Graph& out) : out_(out) {}

  /// Opens a lane of the job's own.
  std::uint32_t open_lane(graph::GraphLaneKind kind, std::string_view name);
  std::uint32_t add_task(graph::TaskKind kind, Ns cost, Ns measured, std::string_view name);
  void close_lane();

  /// Copies `g`, measured times moved by `shift`. Tasks with split[t] != 0 become two: the arrival, and right behind it the
  /// tail. Ids of both afterwards: place(t), tail(t).
  void copy(const graph::Graph& g, Ns shift, const std::vector<char>& split);
  /// What the graph of one rank says about its recording counts for the job's.
  void add_notes(const graph::Graph::Notes& notes);
  [[nodiscard]] std::uint32_t place(std::uint32_t t) const { return place_[t]; }
  [[nodiscard]] std::uint32_t tail(std::uint32_t t) const { return place_[t] + 1; }

  void depend(std::uint32_t from, std::uint32_t to, Ns lag, graph::DependencyKind kind,
              std::uint32_t point = graph::kWhole) {
    dependencies_.push_back({from, to, lag, point, kind});
  }
  void finish() { graph::finish(out_, std::move(dependencies_)); }

 private:
  void copy_task(const graph::Graph& g, std::uint32_t t, Ns shift);

  graph::Graph& out_;
  std::vector<graph::Dependency> dependencies_;
  std::vector<std::uint32_t> place_;  // of the graph copied last
  std::vector<StringId> names_;
};

}  // namespace foretrace::ranks
