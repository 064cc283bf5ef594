#pragma once
// Operations of the forward pass as a compiler sees them: the GPU work of each in both passes, what reads what with views looked
// through, which of them may be fused, and how many products are in front of each.

#include <utility>
#include <vector>

#include "whatif/dataflow/dataflow.hpp"
#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

struct FusionUnit {
  std::vector<std::uint32_t> forward, backward;  ///< rows
  std::uint32_t region = kNone;                  ///< kNone: not compiled
  bool fusible = false, product = false, loss = false;
  std::uint32_t level = 0;  ///< what cannot be fused, on the longest path to it
  std::vector<std::pair<std::uint32_t, double>>
      inputs;  ///< values with content of their own, and elements read, of the samples there are now
};

class FusionUnits {
 public:
  /// What is given must outlive it. `region` by row: kNone for what is not compiled.
  FusionUnits(const Model& model, const std::vector<Row>& rows, const Dataflow& flow,
              const std::vector<std::uint32_t>& region);

  std::vector<FusionUnit> all;                        ///< by unit of the flow
  std::vector<std::vector<std::uint32_t>> consumers;  ///< by value: units that compute with it

  [[nodiscard]] const work::Work& work(std::uint32_t row) const { return m_.works[rows_[row].work]; }
  /// Bytes of an element of a value: as its operation writes it; 4 for parameters and inputs.
  [[nodiscard]] double element_size(std::uint32_t value) const;
  /// Bytes of an element as a product reads it; 0 for others.
  [[nodiscard]] double product_size(std::uint32_t unit) const;
  [[nodiscard]] bool has_gradient(std::uint32_t unit) const { return !all[unit].backward.empty(); }

 private:
  void attribute_rows();
  void link();
  void classify(const std::vector<std::uint32_t>& region);

  const Model& m_;
  const std::vector<Row>& rows_;
  const Dataflow& flow_;
};

/// Work that a compiler generates kernels for: no products, gathers, pools.
bool generates(const work::Work& work);
/// Does it compute the loss? By the name of an operation.
bool computes_loss(std::string_view op);

}  // namespace foretrace::whatif
