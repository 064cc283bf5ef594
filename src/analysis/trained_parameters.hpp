#pragma once
// What a step trains, from its optimizer's operations.

#include <cstdint>
#include <string>

#include "foretrace/graph/graph.hpp"
#include "foretrace/memory/memory.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::analysis {

struct TrainedParameters {
  std::int64_t elements = 0;  ///< 0 when unknown
  std::int64_t tensors = 0;
  std::string optimizer;  ///< "Adam", "SGD", …; empty when none was seen
};
TrainedParameters trained_parameters(const trace::Trace& trace, const graph::Graph& graph);

/// How much of what is there when the step begins are parameters and states of the optimizer.
void size_parameters(memory::Curve& curve, const TrainedParameters& trained);

}  // namespace foretrace::analysis
