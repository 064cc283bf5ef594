#pragma once
// Which operations of a step a compiler runs in one kernel, and what these kernels move. The rules are those torch.compile's
// code generator follows:
//
// - Element-wise operations, copies, normalisations and softmaxes run together with those they hand tensors to, as long as
//   no product is on a path between them: a residual that goes around a product is written and read again.
// - A kernel reads each tensor from outside once and writes what others read: products in their own element type, which is
//   how autocast's casts of activations disappear; other kernels and the backward pass in the tensor's type.
// - The backward pass mirrors the forward one. A kernel reads a gradient from everyone who used its results and what was kept
//   for it, and writes a gradient for every tensor it read.
// - Sums over all rows (statistics of batch norm, gradients of weights and biases) are kernels of their own, in two stages.
//
//   const FusionPlan plan = plan_fusion(model, rows, flow, region);
//   for (const Fused& f : plan.fused) time_of(f.forward, device);   // the rows f.forward_rows are no more

#include <vector>

#include "whatif/rewrite/fusion_units.hpp"
#include "whatif/rewrite/generated_kernels.hpp"

namespace foretrace::whatif {

/// Operations that run together.
struct Fused {
  std::vector<std::uint32_t> units;                        ///< of the data flow, ascending
  std::vector<std::uint32_t> forward_rows, backward_rows;  ///< of `rows`: what ran before
  Generated forward, backward;
  /// Bytes that stay for the backward pass: what products read, masks of dropout, what norms normalised.
  double held = 0;
};

struct FusionPlan {
  std::vector<Fused> fused;
  /// Rows that stay kernels of their own, written by the compiler: casts of weights, sums for biases, copies of what a
  /// product wrote.
  std::vector<std::pair<std::uint32_t, Generated>> alone;
  std::vector<std::uint32_t> merged;         ///< rows that become part of one of those
  std::vector<std::uint32_t> group_of_unit;  ///< into `fused`; kNone: not fused
  /// By unit of the data flow: compiled, not compiled, or a view that follows what is around it.
  enum Where : std::uint8_t { kOutside, kInside, kView };
  std::vector<Where> where;
  std::vector<std::uint32_t> calls;  ///< rows of products and all else the compiled code calls, both passes
};

/// `region` by row: kNone for what is not compiled. Losses are outside the model that is compiled.
FusionPlan plan_fusion(const Model& model, const std::vector<Row>& rows, const Dataflow& flow,
                       const std::vector<std::uint32_t>& region);

}  // namespace foretrace::whatif
