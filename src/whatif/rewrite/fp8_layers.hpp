#pragma once
// Linear layers whose products can run in FP8, as torchao and torch._scaled_mm take them: nn.Linear modules whose sizes are
// multiples of 16. What multiplies by a weight in another way (a Conv1D of GPT-2, an attention module's packed projection
// inside one call) has no such module and stays.

#include <string>
#include <vector>

#include "foretrace/base/result.hpp"
#include "whatif/dataflow/dataflow.hpp"
#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

/// One linear layer: rows x inputs times inputs x outputs, and both gradients.
struct Fp8Layer {
  std::uint32_t unit = kNone;
  const Row *forward = nullptr, *data_grad = nullptr, *weight_grad = nullptr;  ///< null where the step has none
  const Row* weight_cast = nullptr;  ///< autocast's copy of the weight, which the cast to FP8 replaces
  std::int64_t rows = 0, inputs = 0, outputs = 0;
  work::Dtype dtype = work::Dtype::kFp32;         ///< of what comes in and goes out
  work::Dtype weight_dtype = work::Dtype::kFp32;  ///< of the parameter
  bool bias = false;
};

/// In program order, of the chosen modules (`layers`: globs; none: all). Declined where there are none, with the reason. The
/// rows must outlive what is found.
Result<std::vector<Fp8Layer>> find_fp8_layers(const Model& model, const std::vector<Row>& rows, const Dataflow& flow,
                                              const std::vector<std::string>& layers);

}  // namespace foretrace::whatif
