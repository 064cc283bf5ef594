#pragma once
// What torch.autocast does to each operation of a step, followed from the first to the last: which run in half precision,
// which are cast back to FP32, where casts appear, and which tensors are half afterwards. Kineto names no tensors, so a
// tensor is known by its number of elements: the last operation that wrote so many decides.

#include <cstdint>
#include <vector>

#include "whatif/catalogue/rows.hpp"

namespace foretrace::whatif {

enum class Precision : std::uint8_t {
  kFloat,  ///< runs in FP32 as before
  kHalf,   ///< all tensors half
  kMixed,  ///< half and FP32 operands together
};

struct AutocastRow {
  Precision precision = Precision::kFloat;
  std::vector<std::int64_t> activation_casts;  ///< elements of inputs cast in front of it
  std::vector<std::int64_t> weight_casts;      ///< elements of parameters cast in front of it, once a step
};

/// One entry per row of `rows` (program order, forward first).
std::vector<AutocastRow> autocast(const Model& model, const std::vector<Row>& rows);

}  // namespace foretrace::whatif
