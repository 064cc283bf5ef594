#include "whatif/rewrite/autocast.hpp"

#include <algorithm>

namespace foretrace::whatif {

namespace {

bool any_of(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view n) { return op == n; });
}

std::string_view plain(std::string_view op) { return op.starts_with("aten::") ? op.substr(6) : op; }

// PyTorch's list of operations that run in the lower precision (aten/src/ATen/autocast_mode.h), as training steps call them.
bool lower_precision(std::string_view name) {
  const std::string_view op = plain(name);
  return multiplies_weights(name) ||
         any_of(op, {"matmul", "bmm", "baddbmm", "addbmm", "einsum", "addmv", "mv", "addr", "prelu", "chain_matmul",
                     "linalg_vecdot", "linalg_multi_dot", "scaled_dot_product_attention", "rnn_tanh", "rnn_relu"});
}

// Its list of those that run in FP32.
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
  const std::string_view op = plain(name);
  if (op.starts_with("upsample_") || op.ends_with("_loss") || op.starts_with("nll_loss")) return true;
  return std::find(std::begin(kFullPrecision), std::end(kFullPrecision), op) != std::end(kFullPrecision);
}

// Run in FP32 by being asked for an FP32 result: they read half and need no cast.
bool full_precision_result(std::string_view name) {
  return any_of(plain(name), {"softmax", "log_softmax", "cross_entropy_loss", "sum", "prod", "cumsum", "cumprod",
                              "linalg_vector_norm"});
}

// Operations whose other tensors are statistics or parameters that keep their type.
bool follows_first_input(std::string_view name) {
  return name.find("batch_norm") != std::string_view::npos || name.find("instance_norm") != std::string_view::npos;
}

bool is_weight(std::string_view name, std::size_t argument) {
  if (name == "aten::addmm" || name == "aten::addbmm") return argument != 1;
  return multiplies_weights(name) && argument >= 1;
}

class AutocastRules {
 public:
  AutocastRules(const Dataflow& flow, const std::vector<char>& inside) : flow_(flow), inside_(inside) {
    out_.half.assign(flow.values.size(), 0);
    widened_.assign(flow.values.size(), 0);
    grad_.assign(flow.values.size(), 0);
  }

  Autocast run() {
    for (std::size_t i = 0; i < flow_.units.size(); ++i) {
      const Unit& u = flow_.units[i];
      AutocastUnit a;
      const bool half_result = inside_.empty() || inside_[i] != 0 ? one(u, a) : outside(u, a);
      if (a.precision == Precision::kHalf && adds_into_fresh(u)) {  // made in the type of what is added
        const std::uint32_t made = u.inputs.front().value;
        out_.half[made] = 1;
        out_.units[flow_.values[made].producer].precision = Precision::kHalf;
      }
      bool grad = std::any_of(u.inputs.begin(), u.inputs.end(), [&](const Input& in) { return needs(in, u); });
      if (u.computes && plain(u.name) == "to") grad = false;  // the batch on its way to the GPU
      for (const std::uint32_t v : u.outputs) {
        out_.half[v] = half_result ? 1 : 0;
        grad_[v] = grad ? 1 : 0;
      }
      out_.units.push_back(std::move(a));
    }
    return std::move(out_);
  }

 private:
  bool half(const Input& in) const { return out_.half[in.value] != 0; }
  // Does the loss depend on it? What was there before the step is a parameter where weights are used, else a constant.
  bool needs(const Input& in, const Unit& u) const {
    if (flow_.values[in.value].producer != kNone) return grad_[in.value] != 0;
    return multiplies_weights(u.name) || u.name.find("embedding") != std::string_view::npos ||
           u.name.find("norm") != std::string_view::npos;
  }

  // A conversion that changed nothing, of an FP32 tensor: `.float()` there has no purpose, `.to(other.dtype)` in front of a
  // concatenation has one, to give the parts one type. Elsewhere (rotary embeddings, norms) the other tensor is not in sight.
  bool joins_half(const Unit& u) const {
    if (u.inputs.empty() || u.outputs.empty()) return false;
    const std::vector<std::uint32_t>& readers = flow_.values[u.outputs.front()].consumers;
    return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](std::uint32_t r) {
      const Unit& reader = flow_.units[r];
      if (!any_of(plain(reader.name), {"cat", "stack", "concat", "hstack", "vstack"})) return false;
      return std::any_of(reader.inputs.begin(), reader.inputs.end(), [&](const Input& in) {
        const std::uint32_t by = flow_.values[in.value].producer;
        return half(in) && by != kNone && plain(flow_.units[by].name) != "to";
      });
    });
  }

  bool adds_into_fresh(const Unit& u) const {
    if (!u.name.ends_with("_") || u.inputs.size() < 2) return false;
    const std::uint32_t by = flow_.values[u.inputs.front().value].producer;
    return by != kNone && flow_.units[by].name == "aten::zeros" && flow_.units[by].inputs.empty();
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

  // Fills `a`; returns whether the result is half.
  bool one(const Unit& u, AutocastUnit& a) const {
    const bool first_half = !u.inputs.empty() && half(u.inputs.front());
    a.sums_half = first_half;
    if (plain(u.name) == "to" && !u.computes && !first_half && joins_half(u)) {
      a.casts.push_back({u.inputs.front().elements, u.inputs.front().value, false, false, needs(u.inputs.front(), u)});
      return true;
    }
    if (plain(u.name) == "to" && !u.computes) {
      // The program asked for FP32, which changed nothing before.
      if (first_half) a.casts.push_back({u.inputs.front().elements, u.inputs.front().value, false, true, true});
      return false;
    }
    if (!u.computes) {  // its backward pass may copy
      if (first_half) a.precision = Precision::kHalf;
      return first_half;
    }
    if (lower_precision(u.name)) {
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
    return u.name.ends_with("_") && first_half;
  }

  const Dataflow& flow_;
  const std::vector<char>& inside_;
  Autocast out_;
  std::vector<char> grad_, widened_;  // by value
};

}  // namespace

Autocast autocast(const Dataflow& flow, const std::vector<char>& inside) { return AutocastRules(flow, inside).run(); }

}  // namespace foretrace::whatif
