#pragma once
// Sizes of work and memory on one of several GPUs that divide a model's products.

#include "whatif/rewrite/rows.hpp"
#include "whatif/sharding/products.hpp"

namespace foretrace::whatif {

/// How a model is divided.
struct Division {
  const DividedProducts& products;
  const Dataflow& flow;
  std::int64_t size = 1;
  bool vocabulary = true;  ///< embedding, head and loss too
  bool sequence = false;   ///< what is not divided by features is divided by positions
  double samples = 1;      ///< Model::pass_samples: earlier changes made so many of each traced position

  [[nodiscard]] Role role(std::uint32_t unit) const;
  /// Of a product's columns (or rows): 1/size, and more for keys and values where their heads are fewer than the GPUs.
  [[nodiscard]] double share(std::uint32_t unit) const;
  /// Elements of what a product reads or writes, with so many features.
  [[nodiscard]] std::int64_t elements(const Product& product, std::int64_t features) const;
  /// The unit an operation of either pass belongs to.
  [[nodiscard]] std::uint32_t unit_of(std::uint32_t event) const;
  /// What one GPU does of a row's work.
  [[nodiscard]] work::Work divide(const work::Work& work, std::uint32_t unit) const;
  /// Of a memory block that an operation of this unit allocated: bytes on one GPU.
  [[nodiscard]] std::int64_t divide(const memory::Block& block, std::uint32_t unit) const;
};

/// Kernels of the step at the sizes of one GPU.
void divide_rows(Model& model, Draft& draft, const std::vector<Row>& rows, const Division& division);
/// Each GPU keeps so much of the parameters, their gradients' update and states.
void keep_parameters(Model& model, Draft& draft, double left);
/// The update, and what is kept of parameters, states, gradients and activations.
void divide_state(Model& model, Draft& draft, const std::vector<Row>& rows, const Division& division);

}  // namespace foretrace::whatif
