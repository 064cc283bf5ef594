#pragma once
// Which operations of a step a compiler runs in one kernel, and what these kernels move. The rules are those torch.compile's
// code generator follows:
//
// - Element-wise operations, copies, normalisations and softmaxes run together with those they hand tensors to, as long as
//   no product lies on a path between them: a residual that goes around a product is written and read again.
// - A kernel reads each tensor from outside once and writes what others want: products in their own element type, which is
//   how autocast's casts of activations disappear; other kernels and the backward pass in the tensor's type.
// - The backward pass mirrors the forward one. A kernel reads a gradient from everyone who used its results and what was kept
//   for it, and writes a gradient for every tensor it read.
// - Sums over all rows (statistics of batch norm, gradients of weights and biases) are kernels of their own, in two stages.
//
//   const FusionPlan plan = plan_fusion(model, rows, flow, region);
//   for (const Fused& f : plan.fused) time(f.forward);        // and the rows f.forward_rows are no more

#include <array>
#include <vector>

#include "whatif/catalogue/dataflow.hpp"
#include "whatif/catalogue/rows.hpp"

namespace foretrace::whatif {

/// One or several generated kernels that belong together: what they move and compute.
struct Generated {
  double bytes = 0;          ///< read and written by the main kernel
  double random = 0;         ///< elements that draw a random number
  double slow = 0;           ///< elements through a function that costs more than its bytes (GELU, tanh)
  double statistics = 0;     ///< bytes read once more for sums over all samples in the forward pass
  double columns = 0;        ///< bytes read once more for sums over all rows
  std::uint32_t finishing = 0;  ///< second stages of such sums
  [[nodiscard]] bool any() const { return bytes > 0; }
  [[nodiscard]] std::uint32_t kernels() const {
    return (any() ? 1U : 0U) + (statistics > 0 ? 1U : 0U) + (columns > 0 ? 1U : 0U) + finishing;
  }
};

/// Operations that run together.
struct Fused {
  std::vector<std::uint32_t> units;                         ///< of the data flow, ascending
  std::vector<std::uint32_t> forward_rows, backward_rows;   ///< of `rows`: what ran before
  Generated forward, backward;
  /// Bytes that stay for the backward pass: what products read, masks of dropout, what norms normalised.
  double held = 0;
};

struct FusionPlan {
  std::vector<Fused> fused;
  /// Rows that stay kernels of their own, written by the compiler: casts of weights, sums for biases, copies of what a
  /// product wrote.
  std::vector<std::pair<std::uint32_t, Generated>> alone;
  std::vector<std::uint32_t> group_of_unit;  ///< into `fused`; kNone: not fused
  std::vector<std::uint32_t> calls;          ///< rows of products and all else the compiled code calls, both passes
};

/// `region` by row: kNone for what is not compiled. Losses lie outside the model that is compiled.
FusionPlan plan_fusion(const Model& model, const std::vector<Row>& rows, const Dataflow& flow,
                       const std::vector<std::uint32_t>& region);

/// Does it compute the loss? By the name of an operation.
bool of_the_loss(std::string_view op);

}  // namespace foretrace::whatif
