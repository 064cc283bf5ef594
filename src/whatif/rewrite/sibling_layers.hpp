#pragma once
// Layers side by side: products of one module that read the same tensor, as query, key and value of an attention do.

#include <vector>

#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

/// The product as a linear layer makes it, forward or backward; null for all other work.
const work::Gemm* layer_product(const work::Work& work);

/// Layers that read the same tensor: "attention.query", "attention.key" and "attention.value".
struct Siblings {
  std::vector<const Row*> forward;
  std::vector<std::uint32_t> layers;
};
/// Products that follow each other directly, of layers side by side in one module, with inputs of one shape. A layer that
/// reads what the one before it wrote has an activation between them, or is a numbered member of a Sequential.
std::vector<Siblings> find_siblings(const Model& model, const std::vector<Row>& rows);

}  // namespace foretrace::whatif
