#include "whatif/rewrite/autocast.hpp"

#include <algorithm>

#include "whatif/rewrite/type_rules.hpp"

namespace foretrace::whatif {

namespace {

bool any_of(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view n) { return op == n; });
}

// PyTorch's list of operations that run in FP32 (aten/src/ATen/autocast_mode.h).
constexpr std::string_view kFullPrecision[] = {"acos",
                                               "asin",
                                               "cosh",
                                               "erfinv",
                                               "exp",
                                               "expm1",
                                               "log",
                                               "log10",
                                               "log2",
                                               "log1p",
                                               "reciprocal",
                                               "rsqrt",
                                               "sinh",
                                               "tan",
                                               "pow",
                                               "softplus",
                                               "layer_norm",
                                               "native_layer_norm",
                                               "group_norm",
                                               "norm",
                                               "frobenius_norm",
                                               "nuclear_norm",
                                               "cosine_similarity",
                                               "kl_div",
                                               "dist",
                                               "pdist",
                                               "cdist",
                                               "renorm",
                                               "logsumexp",
                                               "binary_cross_entropy_with_logits",
                                               "huber_loss"};
bool full_precision(std::string_view name) {
  const std::string_view op = plain_name(name);
  if (op.starts_with("upsample_") || op.ends_with("_loss") || op.starts_with("nll_loss")) return true;
  return std::find(std::begin(kFullPrecision), std::end(kFullPrecision), op) != std::end(kFullPrecision);
}

// Run in FP32 by being asked for an FP32 result: they read half and need no cast.
bool full_precision_result(std::string_view name) {
  return any_of(plain_name(name), {"softmax", "log_softmax", "cross_entropy_loss", "sum", "prod", "cumsum", "cumprod",
                                   "linalg_vector_norm"});
}

bool is_weight(std::string_view name, std::size_t argument) {
  if (name == "aten::addmm" || name == "aten::addbmm") return argument != 1;
  return multiplies_weights(name) && argument >= 1;
}

class AutocastRules : public TypeRules {
 public:
  AutocastRules(const Dataflow& flow, const std::vector<char>& inside) : TypeRules(flow), inside_(inside) {
    widened_.assign(flow.values.size(), 0);
  }

 private:
  bool one(std::size_t index, AutocastUnit& a) override {
    const Unit& u = flow_.units[index];
    return inside_.empty() || inside_[index] != 0 ? inside(u, a) : outside(u, a);
  }

  // A conversion that changed nothing, of an FP32 tensor: `.float()` there has no purpose, `.to(other.dtype)` in front of a
  // concatenation has one, to give the parts one type. Elsewhere (rotary embeddings, norms) the other tensor is not in sight.
  bool joins_half(const Unit& u) const {
    if (u.inputs.empty() || u.outputs.empty()) return false;
    const std::vector<std::uint32_t>& readers = flow_.values[u.outputs.front()].consumers;
    return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](std::uint32_t r) {
      const Unit& reader = flow_.units[r];
      if (!any_of(plain_name(reader.name), {"cat", "stack", "concat", "hstack", "vstack"})) return false;
      return std::any_of(reader.inputs.begin(), reader.inputs.end(), [&](const Input& in) {
        const std::uint32_t by = flow_.values[in.value].producer;
        return half(in) && by != kNone && plain_name(flow_.units[by].name) != "to";
      });
    });
  }

  // FP32 as before: what comes out of a region is cast back, once for all who read it.
  bool outside(const Unit& u, AutocastUnit& a) {
    for (const Input& in : u.inputs) {
      if (!half(in) || widened_[in.value] != 0) continue;
      widened_[in.value] = 1;
      a.casts.push_back({in.elements, in.value, false, true, needs(in, u)});
    }
    return false;
  }

  bool inside(const Unit& u, AutocastUnit& a) const {
    const bool first_half = !u.inputs.empty() && half(u.inputs.front());
    a.sums_half = first_half;
    if (plain_name(u.name) == "to" && !u.computes && !first_half && joins_half(u)) {
      a.casts.push_back({u.inputs.front().elements, u.inputs.front().value, false, false, needs(u.inputs.front(), u)});
      return true;
    }
    if (plain_name(u.name) == "to" && !u.computes) {
      // The program asked for FP32, which changed nothing before.
      if (first_half) a.casts.push_back({u.inputs.front().elements, u.inputs.front().value, false, true, true});
      return false;
    }
    if (!u.computes) {  // its backward pass may copy
      if (first_half) a.precision = Precision::kHalf;
      return first_half;
    }
    if (in_lower_precision(u.name)) {
      a.precision = Precision::kHalf;
      for (const Input& in : u.inputs) {
        const bool weight = is_weight(u.name, in.argument);
        if (half(in) && !weight) continue;
        a.casts.push_back({in.elements, in.value, weight, false, weight || needs(in, u)});
      }
      return true;
    }
    if (full_precision_result(u.name)) {
      a.reads_half = first_half;
      return false;
    }
    if (full_precision(u.name)) {
      for (const Input& in : u.inputs) {
        if (half(in)) a.casts.push_back({in.elements, in.value, false, true, needs(in, u)});
      }
      return false;
    }
    return follow_inputs(u, a);
  }

  const std::vector<char>& inside_;
  std::vector<char> widened_;  // by value
};

}  // namespace

Autocast autocast(const Dataflow& flow, const std::vector<char>& inside) { return AutocastRules(flow, inside).run(); }

}  // namespace foretrace::whatif
