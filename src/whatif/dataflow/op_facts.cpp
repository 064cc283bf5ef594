#include "whatif/dataflow/op_facts.hpp"

#include "base/text.hpp"

namespace foretrace::whatif {

bool multiplies_weights(std::string_view op) {
  for (const std::string_view name : {"aten::linear", "aten::addmm", "aten::mm", "aten::conv", "aten::lstm",
                                      "aten::gru", "aten::_convolution", "aten::cudnn_conv", "aten::_cudnn_rnn"}) {
    if (op.starts_with(name)) return true;
  }
  return false;
}

bool keeps_input(std::string_view op) {
  return multiplies_weights(op) ||
         contains_any(op,
                      {"matmul", "bmm",      "norm", "mul",       "div", "pow", "gelu",     "silu",    "hardswish",
                       "mish",   "softplus", "elu",  "attention", "log", "abs", "mse_loss", "l1_loss", "binary_cross",
                       "einsum", "max_pool", "addc", "lerp",      "rms", "erf", "var",      "std"});
}

bool keeps_result(std::string_view op) {
  return contains_any(op, {"relu", "threshold", "clamp", "softmax", "sigmoid", "tanh", "exp", "sqrt", "reciprocal",
                           "attention", "lstm", "gru", "rnn", "cross_entropy"});
}

bool keeps_more(std::string_view op) { return contains_any(op, {"dropout", "_norm", "max_pool"}); }

bool makes_one_number(std::string_view op) {
  return op == "aten::zeros" || op == "aten::empty" || op == "aten::full" || op == "aten::zeros_like" ||
         op == "aten::empty_like" || op == "aten::new_zeros" || op == "aten::full_like";
}

}  // namespace foretrace::whatif
