#include "whatif/rewrite/type_rules.hpp"

#include <algorithm>

#include "whatif/dataflow/op_facts.hpp"

namespace foretrace::whatif {

namespace {

bool any_of(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view n) { return op == n; });
}

// Operations whose other tensors are statistics or parameters that keep their type.
bool follows_first_input(std::string_view name) {
  return name.find("batch_norm") != std::string_view::npos || name.find("instance_norm") != std::string_view::npos;
}

}  // namespace

std::string_view plain_name(std::string_view op) { return op.starts_with("aten::") ? op.substr(6) : op; }

// PyTorch's list (aten/src/ATen/autocast_mode.h), as training steps call them.
bool in_lower_precision(std::string_view name) {
  const std::string_view op = plain_name(name);
  return multiplies_weights(name) ||
         any_of(op, {"matmul", "bmm", "baddbmm", "addbmm", "einsum", "addmv", "mv", "addr", "prelu", "chain_matmul",
                     "linalg_vecdot", "linalg_multi_dot", "scaled_dot_product_attention", "rnn_tanh", "rnn_relu"});
}

Autocast TypeRules::run() {
  for (std::size_t i = 0; i < flow_.units.size(); ++i) {
    const Unit& u = flow_.units[i];
    AutocastUnit a;
    const bool half_result = one(i, a);
    if (a.precision == Precision::kHalf && adds_into_fresh(u)) {  // made in the type of what is added
      const std::uint32_t made = u.inputs.front().value;
      out_.half[made] = 1;
      out_.units[flow_.values[made].producer].precision = Precision::kHalf;
    }
    bool grad = std::any_of(u.inputs.begin(), u.inputs.end(), [&](const Input& in) { return needs(in, u); });
    if (u.computes && plain_name(u.name) == "to") grad = false;  // the batch being copied to the GPU
    for (const std::uint32_t v : u.outputs) {
      out_.half[v] = half_result ? 1 : 0;
      grad_[v] = grad ? 1 : 0;
    }
    out_.units.push_back(std::move(a));
  }
  return std::move(out_);
}

bool TypeRules::needs(const Input& in, const Unit& u) const {
  if (flow_.values[in.value].producer != kNone) return grad_[in.value] != 0;
  return multiplies_weights(u.name) || u.name.find("embedding") != std::string_view::npos ||
         u.name.find("norm") != std::string_view::npos;
}

bool TypeRules::adds_into_fresh(const Unit& u) const {
  if (!u.name.ends_with("_") || u.inputs.size() < 2) return false;
  const std::uint32_t by = flow_.values[u.inputs.front().value].producer;
  return by != kNone && flow_.units[by].name == "aten::zeros" && flow_.units[by].inputs.empty();
}

bool TypeRules::follow_inputs(const Unit& u, AutocastUnit& a) const {
  std::size_t halves = 0;
  std::size_t floats = 0;
  const bool into_fresh = adds_into_fresh(u);
  for (const Input& in : u.inputs) {
    if (into_fresh && &in == &u.inputs.front()) continue;
    // A number as a tensor does not decide the result's type.
    if (flow_.values[in.value].producer == kNone && in.elements <= 1) continue;
    (half(in) ? halves : floats) += 1;
    if (follows_first_input(u.name)) break;
  }
  if (halves == 0) return false;
  if (floats == 0) {
    a.precision = Precision::kHalf;
    return true;
  }
  a.precision = Precision::kMixed;
  for (const Input& in : u.inputs) {
    if (half(in) && needs(in, u)) a.narrowed.push_back(in.elements);
  }
  return u.name.ends_with("_") && half(u.inputs.front());
}

}  // namespace foretrace::whatif
