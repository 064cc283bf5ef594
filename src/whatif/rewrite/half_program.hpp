#pragma once
// The types of a program whose parameters and inputs are half (model.half(), model.to(torch.bfloat16)), from a trace of it in FP32:
// every operation computes in the type of its inputs, and what the program itself converts to FP32 stays FP32. In FP32 such a
// conversion changed nothing and launched nothing, and `x.float()` looks like `x.to(y.dtype)`; what is done with the result tells them
// apart:
//
//   - what a product multiplies is half: a conversion whose result leads to one is that back to half, of an FP32 tensor, or changes
//     nothing, of a half one (GPT-2's softmax);
//   - any other is to FP32 (Llama's norms; the logits, which lead to the loss);
//   - a product whose operands are all converted so is computed in FP32 (a router, rotary angles).

#include <functional>

#include "whatif/rewrite/autocast.hpp"
#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

/// `dtype`: the half type.
Autocast half_program(const Dataflow& flow, work::Dtype dtype, HalfParameters parameters);

/// Writes a program's types into the draft, and into the memory curve where there is one: work, casts, sizes. `elsewhere` changes the rows of
/// no unit of the forward pass, such as the update. Returns how many operations changed.
std::size_t write_types(Model& model, Draft& draft, Autocast& types, work::Dtype dtype,
                        const std::function<bool(const Row&)>& elsewhere);

}  // namespace foretrace::whatif
