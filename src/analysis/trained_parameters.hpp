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
  std::int64_t element_bytes = 4;  ///< of parameters and gradients
  std::int64_t accumulated = 0;    ///< elements of all gradients that backward put in place; 0 when unknown
  std::string optimizer;           ///< "Adam", "SGD", …; empty when none was seen
};
TrainedParameters trained_parameters(const trace::Trace& trace, const graph::Graph& graph);

/// How much of what is there when the step begins are parameters and states of the optimizer. Where the optimizer's operations do
/// not tell (lists without shapes), parameters are counted by the gradients backward leaves.
void size_parameters(memory::Curve& curve, TrainedParameters& trained);

/// Finds the blocks that hold copies of weights, as autocast makes them, and gradients of weights before they are cast: by their
/// shapes, where no activation has the same.
void mark_parameter_copies(memory::Curve& curve, const trace::Trace& trace);

}  // namespace foretrace::analysis
