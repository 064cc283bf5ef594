#pragma once
// Pairs of products that several GPUs can divide: the first by the columns of its weight, the second by the rows of its
// own, with nothing in between that needs whole rows (query, key and value with the output projection; up and gate with
// down). They are found by following tensors back from a product to those that feed it. A norm over the model's width ends
// the way.

#include <cstdint>
#include <vector>

#include "whatif/dataflow/dataflow.hpp"

namespace foretrace::whatif {

/// What a division does to an operation of the forward pass.
enum class Role : std::uint8_t {
  kWhole,   ///< every GPU does all of it
  kColumn,  ///< a product divided by the columns of its result
  kRow,     ///< a product divided by the rows of its weight: its result is a sum over the GPUs
  kInside,  ///< between the two: each GPU has its part of heads or features
  kHead,    ///< the product that makes logits
  kLogits,  ///< what is done to them, loss included
  kTable,   ///< the lookup of tokens
};

/// A product by a weight: rows x in * in x out, for `experts` weights at once.
struct Product {
  std::int64_t rows = 0, in = 0, out = 0, experts = 1;
  std::uint32_t input = kNone;   ///< value
  std::int64_t input_bytes = 4;  ///< of an element, as the program hands it over
  bool key_value = false;        ///< projects keys or values, of which there are fewer heads than of queries
  [[nodiscard]] std::int64_t weight() const { return experts * in * out; }
  [[nodiscard]] bool known() const { return in > 0; }
};

/// By unit of the dataflow; known() is false for what is no product by a weight.
std::vector<Product> weight_products(const Model& model, const Dataflow& flow);

struct DividedProducts {
  std::vector<Role> roles;                         ///< by unit of the dataflow
  std::vector<Product> products;                   ///< by unit; known() is false for others
  std::vector<std::vector<std::uint32_t>> groups;  ///< units of column products that share an input
  std::vector<std::uint32_t> rows;                 ///< units of row products
  std::uint32_t head = kNone, table = kNone, loss = kNone;
  std::int64_t heads = 0, key_heads = 0;           ///< of attention
  std::int64_t table_rows = 0, table_columns = 0;  ///< of the tokens' embedding
};

/// Declined, with the reason, where the step has no attention whose products can be divided.
Result<DividedProducts> find_products(const Model& model, const Dataflow& flow);

}  // namespace foretrace::whatif
