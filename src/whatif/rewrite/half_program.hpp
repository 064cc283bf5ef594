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

#include "whatif/rewrite/autocast.hpp"

namespace foretrace::whatif {

/// `dtype`: the half type.
Autocast half_program(const Dataflow& flow, work::Dtype dtype);

}  // namespace foretrace::whatif
