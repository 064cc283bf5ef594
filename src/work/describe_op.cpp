// Operations whose time is memory traffic: what they read and write, and in which order.

#include "work/describe_op.hpp"

#include <algorithm>

#include "base/saturate.hpp"
#include "base/text.hpp"

namespace foretrace::work {

namespace {

bool floating(Dtype d) { return d <= Dtype::kFp64; }

// What the framework computes in when types differ: the wider floating type; fp16 with bf16 gives fp32.
Dtype promote(Dtype a, Dtype b) {
  if (a == b) return a;
  if (!floating(a)) return floating(b) ? b : (a == Dtype::kInt ? a : b);
  if (!floating(b)) return a;
  if (a == Dtype::kFp64 || b == Dtype::kFp64) return Dtype::kFp64;
  return Dtype::kFp32;
}

// c10::ScalarType as it is printed among an operation's inputs.
Dtype from_scalar_type(std::int64_t code, Dtype otherwise) {
  if (code == 5) return Dtype::kFp16;
  if (code == 6) return Dtype::kFp32;
  if (code == 7) return Dtype::kFp64;
  return code == 15 ? Dtype::kBf16 : otherwise;
}

Shape broadcast(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    out[out.size() - 1 - i] = std::max(x, y);
  }
  return out;
}

// The orders in which tensors of one shape are in memory, compared.
struct Walk {
  Order first;
  bool any = false;
  bool strided = false;
  bool transposed = false;

  void add(const Order& order) {
    strided = strided || !order.dense || (any && order != first);
    transposed =
        transposed || (any && !order.dims.empty() && !first.dims.empty() && order.dims.back() != first.dims.back());
    if (!any) first = order;
    any = true;
  }
  [[nodiscard]] Access access(bool mixed) const {
    if (transposed) return Access::kTransposed;
    if (strided) return mixed ? Access::kMixedStrided : Access::kStrided;
    return mixed ? Access::kMixed : Access::kContiguous;
  }
};

Arithmetic arithmetic_of(std::string_view name) {
  const auto has = [&](std::string_view word) { return name.find(word) != std::string_view::npos; };
  if (has("native_dropout_backward")) return Arithmetic::kPlain;
  if (has("dropout") || has("bernoulli") || has("rand") || has("normal_") || has("uniform"))
    return Arithmetic::kDropout;
  if (has("gelu") || has("erf") || has("mish")) return Arithmetic::kGelu;
  if (has("silu") || has("sigmoid") || has("softplus")) return Arithmetic::kSilu;
  return Arithmetic::kPlain;
}

// Element-wise over the tensor arguments.
void elementwise(Work& w, const OpClass& what, std::string_view /*name*/, const OpView& op) {
  const Form form = what.form;
  Shape out;
  Dtype type = Dtype::kOther;
  bool mixed = false;
  std::vector<const Argument*> tensors;
  for (std::size_t i = 0; i < op.size(); ++i) {
    if (!op.tensor(i)) continue;
    const Argument& a = op[i];
    // Numbers wrapped as 0-dimensional tensors neither promote nor cost.
    if (a.shape().empty() && op.first_tensor() < op.size()) continue;
    const Dtype d = parse_dtype(a.type);
    if (!tensors.empty() && floating(d) && floating(type) && d != type) mixed = true;
    type = tensors.empty() ? d : promote(type, d);
    tensors.push_back(&a);
    out = broadcast(out, a.shape());
  }
  if (tensors.empty()) return;
  w.elements = elements_of(out);
  w.dtype = type;
  w.out_dtype = form == Form::kCompare   ? Dtype::kOther
                : form == Form::kInPlace ? parse_dtype(tensors.front()->type)
                                         : type;
  if (w.out_dtype != type && form == Form::kInPlace) mixed = true;
  Walk walk;
  for (const Argument* a : tensors) {
    if (a->elements() != w.elements) {
      walk.strided = walk.strided || a->elements() > 1;
    } else if (!a->strides.empty() && a->shape().size() == out.size()) {
      walk.add(order_of(a->shape(), a->strides.front()));
    }
  }
  w.access = walk.access(mixed);
  for (const Argument* a : tensors) add_read(w, *a);
  add_written(w, w.elements, w.out_dtype);
  if (form == Form::kDropout) add_written(w, w.elements, Dtype::kOther);  // the mask, one byte an element
  w.flops = static_cast<double>(w.elements);
}

void copy(Work& w, const OpClass& /*what*/, std::string_view /*name*/, const OpView& op) {
  if (!op.tensor(0) || !op.tensor(1)) return;
  const Argument& to = op[0];
  const Argument& from = op[1];
  w.dtype = parse_dtype(from.type);
  w.out_dtype = parse_dtype(to.type);
  w.elements = to.elements();
  const bool mixed = cast_work(1, w.dtype, w.out_dtype).access == Access::kMixed;
  Walk walk;
  walk.strided = from.elements() != to.elements();
  if (!to.strides.empty() && !from.strides.empty() && to.shape() == from.shape()) {
    walk.add(order_of(to.shape(), to.strides.front()));
    walk.add(order_of(from.shape(), from.strides.front()));
  }
  w.access = walk.access(mixed);
  w.bytes_read = static_cast<double>(from.bytes());
  w.bytes_written = static_cast<double>(to.bytes());
  if (!floating(w.dtype)) w.fixed_read = w.bytes_read;
  if (w.out_dtype != w.dtype) w.fixed_written = w.bytes_written;
}

void reduction(Work& w, const OpClass& /*what*/, std::string_view /*name*/, const OpView& op) {
  const std::size_t at = op.first_tensor();
  if (at == op.size()) return;
  const Argument& in = op[at];
  w.dtype = w.out_dtype = parse_dtype(in.type);
  w.elements = in.elements();
  const std::size_t rank = in.shape().size();
  const bool takes_dims = at + 1 < op.size() && (op[at + 1].type == "ScalarList" || op[at + 1].type == "Scalar");
  const Shape dims = takes_dims ? op.integers(at + 1) : Shape{};
  std::vector<bool> reduced(rank, dims.empty());
  for (std::int64_t d : dims) {
    if (d < 0) d += static_cast<std::int64_t>(rank);
    if (d >= 0 && d < static_cast<std::int64_t>(rank)) reduced[static_cast<std::size_t>(d)] = true;
  }
  std::int64_t columns = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    if (reduced[d]) columns *= in.shape()[d];
  }
  const std::int64_t rows = columns > 0 ? w.elements / columns : 0;
  // In memory order: are the innermost dimensions summed over, others, or both sides of one that is kept?
  const Order order = order_of(in.shape(), in.strides.empty() ? Shape{} : in.strides.front());
  bool kept = false;
  bool both = false;
  std::int64_t stretches = 1;
  for (std::size_t i = order.dims.size(); i-- > 0;) {
    if (!reduced[order.dims[i]]) {
      kept = true;
    } else if (kept) {
      both = true;
      stretches = saturated_product(stretches, in.shape()[order.dims[i]]);
    }
  }
  const bool inner = order.dims.empty() || reduced[order.dims.back()];
  w.access = !inner ? Access::kStrided : both ? Access::kTransposed : Access::kContiguous;
  w.kind = Rows{.rows = rows, .columns = columns, .samples = inner && both ? stretches : 0};
  add_read(w, in);
  add_written(w, rows, w.out_dtype);
  w.flops = static_cast<double>(w.elements);
}

void normalisation(Work& w, const OpClass& what, std::string_view name, const OpView& op) {
  const bool grad =
      what.form == Form::kBatchNormGrad || what.form == Form::kLayerNormGrad || what.form == Form::kSoftmaxGrad;
  if (!op.tensor(0, 1)) return;
  const Argument& in = op[0];
  w.dtype = w.out_dtype = parse_dtype(in.type);
  w.elements = in.elements();
  add_read(w, in);
  if (grad && op.tensor(1, 1)) add_read(w, op[1]);
  const Shape& shape = in.shape();
  const auto rows_of = [&](std::int64_t columns) {
    return Rows{.rows = columns > 0 ? w.elements / columns : 0, .columns = columns};
  };
  if (auto* norm = std::get_if<BatchNorm>(&w.kind)) {
    norm->channels = shape.size() > 1 ? shape[1] : 1;
    norm->channel_elements = norm->channels > 0 ? w.elements / norm->channels : 0;
    norm->channels_last = in.channels_last() || shape.size() == 2;  // vectors have their channels innermost
    for (std::size_t i = 0; i < 4 && i < shape.size(); ++i) norm->input[i] = shape[i];
    if (shape.size() == 2) norm->input[2] = norm->input[3] = 1;
  } else if (w.family == Family::kSoftmax) {
    std::int64_t dim = op.integer(grad ? 2 : 1, -1);
    if (dim < 0) dim += static_cast<std::int64_t>(shape.size());
    Rows rows = rows_of(dim >= 0 && dim < static_cast<std::int64_t>(shape.size()) ? shape[static_cast<std::size_t>(dim)]
                                                                                  : shape.back());
    if (contains(name, "log_softmax")) rows.operation = Rows::Operation::kLog;
    w.kind = rows;
    w.access = dim + 1 == static_cast<std::int64_t>(shape.size()) ? Access::kContiguous : Access::kStrided;
    if (!grad && op.flag(2)) w.out_dtype = Dtype::kFp32;
    if (grad) w.out_dtype = from_scalar_type(op.integer(3, -1), w.out_dtype);
  } else if (contains(name, "group_norm")) {
    // (input, weight, bias, N, C, HxW, groups, eps) and (grad, input, mean, rstd, weight, N, C, HxW, groups, …)
    const std::size_t at = grad ? 5 : 3;
    const std::int64_t groups = std::max<std::int64_t>(1, op.integer(at + 3, 1));
    Rows rows = rows_of(op.integer(at + 1, 1) * op.integer(at + 2, 1) / groups);
    rows.groups = true;
    rows.samples = op.integer(at, 1);
    rows.channels = op.integer(at + 1, 1);
    w.kind = rows;
  } else {
    const Shape normalized = op.integers(grad ? 2 : 1);
    Rows rows = rows_of(normalized.empty() ? shape.back() : elements_of(normalized));
    if (contains(name, "rms_norm")) rows.operation = Rows::Operation::kRms;
    w.kind = rows;
  }
  add_written(w, w.elements, w.out_dtype);
  w.flops = static_cast<double>(w.elements) * (grad ? 10 : 6);
}

}  // namespace

void add_read(Work& w, const Argument& a) {
  w.bytes_read += static_cast<double>(a.bytes());
  if (parse_dtype(a.type) != w.dtype) w.fixed_read += static_cast<double>(a.bytes());
}

void add_written(Work& w, std::int64_t elements, Dtype dtype) {
  w.bytes_written += static_cast<double>(elements * bytes_of(dtype));
  if (dtype != w.dtype) w.fixed_written += static_cast<double>(elements * bytes_of(dtype));
}

namespace {

void fill(Work& w, const OpClass& /*what*/, std::string_view /*name*/, const OpView& op) {
  const std::size_t at = op.first_tensor();
  if (at == op.size()) return;
  w.dtype = w.out_dtype = parse_dtype(op[at].type);
  w.elements = op[at].elements();
  w.access = op[at].contiguous() ? Access::kContiguous : Access::kStrided;
  add_written(w, w.elements, w.out_dtype);
}

void concatenation(Work& w, const OpClass& /*what*/, std::string_view /*name*/, const OpView& op) {
  if (op.size() == 0 || !op[0].list()) return;
  w.elements = op[0].elements();
  std::get<Pointwise>(w.kind).tensors = static_cast<std::int64_t>(op[0].shapes.size());
  w.bytes_read = static_cast<double>(w.elements * bytes_of(w.dtype));
  w.access = Access::kStrided;
  add_written(w, w.elements, w.out_dtype);
}

struct Describer {
  Form form;
  void (*describe)(Work&, const OpClass&, std::string_view name, const OpView&);
};
using enum Form;
constexpr Describer kDescribers[] = {{kMm, describe_gemm},
                                     {kAddmm, describe_gemm},
                                     {kBmm, describe_gemm},
                                     {kBaddbmm, describe_gemm},
                                     {kLinear, describe_gemm},
                                     {kConvCudnn, describe_conv},
                                     {kConvGeneric, describe_conv},
                                     {kConvDepthwise, describe_conv},
                                     {kConvBackward, describe_conv},
                                     {kAttention, describe_attention},
                                     {kAttentionGrad, describe_attention},
                                     {kBatchNorm, normalisation},
                                     {kBatchNormGrad, normalisation},
                                     {kLayerNorm, normalisation},
                                     {kLayerNormGrad, normalisation},
                                     {kSoftmax, normalisation},
                                     {kSoftmaxGrad, normalisation},
                                     {kElementwise, elementwise},
                                     {kInPlace, elementwise},
                                     {kCompare, elementwise},
                                     {kDropout, elementwise},
                                     {kFill, fill},
                                     {kCopy, copy},
                                     {kCat, concatenation},
                                     {kReduction, reduction},
                                     {kEmbedding, describe_embedding},
                                     {kEmbeddingGrad, describe_embedding},
                                     {kGather, describe_embedding},
                                     {kAlong, describe_along},
                                     {kPooling, describe_pooling},
                                     {kPoolingGrad, describe_pooling},
                                     {kLoss, describe_loss},
                                     {kLossGrad, describe_loss},
                                     {kRnn, describe_rnn},
                                     {kForeach, describe_foreach}};

}  // namespace

Work describe_op(const OpClass& what, std::string_view name, const OpView& op) {
  Work w(what.family);
  w.backward = what.backward;
  if (auto* pointwise = std::get_if<Pointwise>(&w.kind)) {
    pointwise->arithmetic = what.form == Form::kFill ? Arithmetic::kFill : arithmetic_of(name);
  }
  const auto describer = std::find_if(std::begin(kDescribers), std::end(kDescribers),
                                      [&](const Describer& d) { return d.form == what.form; });
  if (describer != std::end(kDescribers)) describer->describe(w, what, name, op);
  return w;
}

}  // namespace foretrace::work
