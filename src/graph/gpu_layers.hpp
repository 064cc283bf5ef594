#pragma once
// Phase and layer of GPU tasks, once those of the CPU's are known (layers.cpp): of their launches where each has one of its own,
// else what names of kernels and the program's compiler say.

#include <string>
#include <string_view>
#include <unordered_map>

#include "foretrace/graph/graph.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::graph {

/// The layers of a graph by name and type, each there once.
class LayerNames {
 public:
  explicit LayerNames(Graph& graph) : g_(graph) {}
  LayerId of(std::string_view name, std::string_view type, bool synthetic);

 private:
  Graph& g_;
  std::unordered_map<std::string, LayerId> known_;
};

void assign_gpu_layers(const trace::Trace& trace, Graph& graph, LayerNames& names);

}  // namespace foretrace::graph
