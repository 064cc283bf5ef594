#pragma once
// Mixtures of experts: products of many weights in parallel, found by data flow, and what one of several GPUs that divide
// the experts computes and keeps.

#include <cstdint>
#include <vector>

#include "whatif/rewrite/rows.hpp"
#include "whatif/sharding/products.hpp"

namespace foretrace::whatif {

/// The experts of one layer: products that read what was dispatched to them, and the one whose result is combined.
struct ExpertLayer {
  std::vector<std::uint32_t> first;  ///< units, in program order
  std::uint32_t last = kNone;
};

struct Experts {
  std::vector<Product> products;  ///< by unit; known() only for those of experts
  std::vector<char> inside;       ///< by unit: between the first products and the last of a layer
  std::vector<ExpertLayer> layers;
  std::int64_t count = 0;  ///< of a layer
};

/// Declined, with the reason, where no product of the step has several experts.
Result<Experts> find_experts(const Model& model, const Dataflow& flow);

struct ExpertDivision {
  const Experts& experts;
  const Dataflow& flow;
  std::int64_t size = 1;
  double load = 1;         ///< tokens of the fullest GPU's experts, as a multiple of the trace's
  double samples = 1;      ///< Model::pass_samples
  double uncertainty = 0;  ///< of log time of what the load decides

  [[nodiscard]] std::uint32_t unit_of(std::uint32_t event) const;
  [[nodiscard]] work::Work divide(const work::Work& work, std::uint32_t unit) const;
  [[nodiscard]] std::int64_t divide(const memory::Block& block, std::uint32_t unit) const;
};

/// Kernels, parameters and memory of one GPU.
void divide_experts(Model& model, Draft& draft, const std::vector<Row>& rows, const ExpertDivision& division);

}  // namespace foretrace::whatif
