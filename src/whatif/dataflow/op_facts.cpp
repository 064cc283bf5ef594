#include "whatif/dataflow/op_facts.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace foretrace::whatif {

using work::Argument;
using work::OpView;
using work::Shape;

namespace {

bool one_of(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), op) != names.end();
}

}  // namespace

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

bool makes_constant(std::string_view op) {
  return one_of(op, {"aten::zeros", "aten::empty", "aten::full", "aten::zeros_like", "aten::empty_like",
                     "aten::new_zeros", "aten::full_like"});
}

namespace {

/// A dimension as written, negative ones counted from the end; npos when there is none such.
std::size_t dimension(std::int64_t written, std::size_t rank) {
  const std::int64_t d = written < 0 ? written + static_cast<std::int64_t>(rank) : written;
  return d < 0 || d >= static_cast<std::int64_t>(rank) ? std::string_view::npos : static_cast<std::size_t>(d);
}

Shape product(std::string_view op, const OpView& view) {
  const std::size_t a = one_of(op, {"aten::addmm", "aten::baddbmm"}) ? 1 : 0;
  if (!view.tensor(a, 2) || !view.tensor(a + 1, 2)) return {};
  Shape s = view[a].shape();
  s.back() = op == "aten::linear" ? view[a + 1].shape().front() : view[a + 1].shape().back();
  return s;
}

Shape joined(std::string_view op, const OpView& view) {
  if (view.size() < 2 || view[0].shapes.empty()) return {};
  Shape s = view[0].shapes.front();
  const bool stack = op == "aten::stack";
  const std::size_t d = dimension(view.integer(1, 0), s.size() + (stack ? 1 : 0));
  if (d == std::string_view::npos) return {};
  if (stack) {
    s.insert(s.begin() + static_cast<std::ptrdiff_t>(d), static_cast<std::int64_t>(view[0].shapes.size()));
    return s;
  }
  s[d] = 0;
  for (const Shape& part : view[0].shapes) s[d] += d < part.size() ? part[d] : 0;
  return s;
}

// Rows looked up: embedding(weight, indices), embedding_bag(weight, indices, offsets).
Shape looked_up(std::string_view op, const OpView& view) {
  const std::size_t rows = op == "aten::embedding" ? 1 : 2;
  if (!view.tensor(0, 2) || !view.tensor(rows, 1)) return {};
  Shape s = view[rows].shape();
  s.push_back(view[0].shape().back());
  return s;
}

// sum, mean and their like over named dimensions.
Shape reduced(const OpView& view) {
  if (!view.tensor(0) || view.size() < 2) return {};
  const Shape dims = view.integers(1);
  Shape s = view[0].shape();
  if (dims.empty()) return {};
  std::vector<std::size_t> gone;
  for (const std::int64_t written : dims) {
    const std::size_t d = dimension(written, s.size());
    if (d == std::string_view::npos) return {};
    gone.push_back(d);
  }
  std::sort(gone.rbegin(), gone.rend());
  for (const std::size_t d : gone) {
    if (view.flag(2)) {
      s[d] = 1;
    } else {
      s.erase(s.begin() + static_cast<std::ptrdiff_t>(d));
    }
  }
  return s;
}

Shape broadcast(std::string_view op, const OpView& view) {
  Shape out;
  for (const Argument& a : view.arguments()) {
    if (!a.tensor()) continue;
    const Shape& s = a.shape();
    if (s.size() > out.size()) out.insert(out.begin(), s.size() - out.size(), 1);
    for (std::size_t k = 0; k < s.size(); ++k) {
      std::int64_t& d = out[out.size() - s.size() + k];
      d = std::max(d, s[k]);
    }
    if (contains_any(op, {"norm", "attention"})) break;
  }
  return out;
}

}  // namespace

bool makes_integers(std::string_view op) {
  return one_of(
      op, {"aten::arange",       "aten::eq",           "aten::ne",           "aten::lt",          "aten::le",
           "aten::gt",           "aten::ge",           "aten::nonzero",      "aten::argmax",      "aten::argmin",
           "aten::argsort",      "aten::randint",      "aten::randperm",     "aten::one_hot",     "aten::bincount",
           "aten::isnan",        "aten::isinf",        "aten::isfinite",     "aten::logical_not", "aten::logical_and",
           "aten::logical_or",   "aten::bitwise_not",  "aten::bitwise_and",  "aten::bitwise_or",  "aten::searchsorted",
           "aten::bucketize",    "aten::tril_indices", "aten::triu_indices", "aten::all",         "aten::any",
           "aten::nonzero_numpy"});
}

Shape result_shape(std::string_view op, const OpView& view) {
  if (one_of(op, {"aten::mm", "aten::bmm", "aten::linear", "aten::matmul", "aten::addmm", "aten::baddbmm"}))
    return product(op, view);
  if (one_of(op, {"aten::cat", "aten::stack"})) return joined(op, view);
  if (one_of(op, {"aten::embedding", "aten::embedding_bag"})) return looked_up(op, view);
  if (one_of(op, {"aten::sum", "aten::mean"})) return reduced(view);
  if (op == "aten::gather") return view.tensor(2) ? view[2].shape() : Shape();
  if (op == "aten::index_select") {
    if (!view.tensor(0) || !view.tensor(2)) return {};
    Shape s = view[0].shape();
    const std::size_t d = dimension(view.integer(1, 0), s.size());
    if (d == std::string_view::npos) return {};
    s[d] = view[2].elements();
    return s;
  }
  if (contains_any(op, {"index_add", "scatter", "masked_fill", "index_put", "index_copy", "index_fill"}))
    return view.tensor(0) ? view[0].shape() : Shape();
  if (one_of(op, {"aten::zeros", "aten::ones", "aten::empty", "aten::full", "aten::rand", "aten::randn"}))
    return view.integers(0);
  if (contains_any(op, {"pool", "mean", "sum", "max", "min", "norm_except", "lstm", "gru", "rnn", "upsample",
                        "interpolate", "index", "loss", "cross_entropy", "einsum", "repeat", "pad", "topk", "sort"}))
    return {};
  return broadcast(op, view);
}

}  // namespace foretrace::whatif
