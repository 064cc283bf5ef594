#pragma once
// Attention that a step computes from separate operations. No profiler names it: it is found by its structure, two batched products of which
// one makes the scores a softmax reads and the other uses them, and by the data flow between and around them.

#include <set>
#include <vector>

#include "whatif/dataflow/dataflow.hpp"
#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

/// One attention of the step: two batched products around a softmax, and what is done to the scores between them.
struct Attention {
  std::vector<const Row*> forward, backward;
  std::set<std::uint32_t> units;  ///< of the data flow: all of it runs in the fused kernel
  std::set<std::uint32_t> views;  ///< that lead to its operands: their gradients arrive as they are wanted, uncopied
  work::Gemm first;               ///< queries x keys
  work::Dtype dtype = {};         ///< of that product
  std::int64_t scores = 0;        ///< elements
  std::uint32_t first_unit = kNone, last_unit = kNone;  ///< the two products
  bool dropout = false;
  bool causal = false;        ///< what is behind a position is masked
  bool learned_bias = false;  ///< something is added to the scores that has a gradient of its own: a bias of positions
};

/// In program order. The rows must outlive what is found.
std::vector<Attention> find_attentions(const Model& model, const std::vector<Row>& rows, const Dataflow& flow);

}  // namespace foretrace::whatif
