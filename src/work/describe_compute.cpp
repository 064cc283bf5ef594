// Operations whose time is arithmetic: matrix products, convolutions, attention, recurrent layers.

#include <algorithm>

#include "work/describe_op.hpp"

namespace foretrace::work {

namespace {

// The last two dimensions as rows x columns, those before as batch; vectors are one row.
struct Matrix {
  std::int64_t batch = 1, rows = 1, columns = 1;
};

Matrix matrix(const Shape& s) {
  Matrix m;
  if (s.empty()) return m;
  m.columns = s.back();
  if (s.size() >= 2) m.rows = s[s.size() - 2];
  for (std::size_t i = 0; i + 2 < s.size(); ++i) m.batch *= s[i];
  return m;
}

void set_gemm(Work& w, const Argument& a, const Argument& b, bool b_is_transposed, bool fold_batch) {
  Matrix left = matrix(a.shape());
  const Matrix right = matrix(b.shape());
  if (fold_batch) {
    left.rows *= left.batch;
    left.batch = 1;
  }
  w.dtype = w.out_dtype = parse_dtype(a.type);
  Gemm g;
  g.batch = std::max<std::int64_t>(left.batch, 1);
  g.m = left.rows;
  g.k = left.columns;
  g.n = b_is_transposed ? right.rows : (b.shape().size() < 2 ? 1 : right.columns);
  // Contiguous along its rows rather than its columns?
  const auto by_rows = [](const Argument& x) {
    if (x.strides.empty() || x.strides.front().size() < 2 || x.shape().size() != x.strides.front().size()) return false;
    const Shape& stride = x.strides.front();
    return stride[stride.size() - 2] == 1 && stride.back() != 1;
  };
  g.a_transposed = by_rows(a);
  g.b_transposed = b_is_transposed != by_rows(b);
  w.kind = g;
  refresh(w);
}

std::int64_t output_size(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                         std::int64_t dilation) {
  return (in + 2 * padding - dilation * (kernel - 1) - 1) / std::max<std::int64_t>(stride, 1) + 1;
}

// N C and the spatial dimensions folded into two (a 1-D signal has height 1, a volume's depth multiplies its height).
std::array<std::int64_t, 4> four(const Shape& s) {
  std::array<std::int64_t, 4> out{1, 1, 1, 1};
  if (s.size() < 2) return out;
  out[0] = s[0];
  out[1] = s[1];
  if (s.size() == 3) out[3] = s[2];
  if (s.size() >= 4) {
    out[3] = s.back();
    for (std::size_t i = 2; i + 1 < s.size(); ++i) out[2] *= s[i];
  }
  return out;
}

}  // namespace

void describe_gemm(Work& work, const OpClass& what, const OpView& op) {
  switch (what.form) {
    case Form::kMm:
    case Form::kBmm:
      if (op.tensor(0, 1) && op.tensor(1, 1)) set_gemm(work, op[0], op[1], false, false);
      break;
    case Form::kAddmm:
    case Form::kBaddbmm:
      if (op.tensor(1, 1) && op.tensor(2, 1)) set_gemm(work, op[1], op[2], false, false);
      break;
    case Form::kLinear:
      if (op.tensor(0, 1) && op.tensor(1, 1)) set_gemm(work, op[0], op[1], true, true);
      break;
    default:
      break;
  }
}

void describe_conv(Work& work, const OpClass& what, std::string_view name, const OpView& op) {
  const bool grad = what.form == Form::kConvBackward;
  const std::size_t input = grad ? 1 : 0;
  const std::size_t weight = grad ? 2 : 1;
  if (!op.tensor(input, 3) || !op.tensor(weight, 3)) return;
  std::size_t stride = 3;
  std::size_t padding = 2;
  std::size_t dilation = 4;
  std::size_t groups = 5;
  if (what.form == Form::kConvGeneric) {
    stride = 3, padding = 4, dilation = 5, groups = 8;
  } else if (what.form == Form::kConvDepthwise) {
    stride = 4, padding = 5, dilation = 6, groups = op.size();
  } else if (grad) {
    stride = 4, padding = 5, dilation = 6, groups = 9;
  }
  const bool transposed = name.find("transpose") != std::string_view::npos ||
                          (what.form == Form::kConvGeneric && op.flag(6)) || (grad && op.flag(7));
  work.dtype = work.out_dtype = parse_dtype(op[input].type);
  Convolution c;
  c.input = four(op[input].shape());
  const std::array<std::int64_t, 4> kernel = four(op[weight].shape());
  c.kernel_h = kernel[2];
  c.kernel_w = kernel[3];
  c.stride = std::max<std::int64_t>(1, op.integer(stride, 1));
  c.groups = what.form == Form::kConvDepthwise ? c.input[1] : std::max<std::int64_t>(1, op.integer(groups, 1));
  c.out_channels = transposed ? kernel[1] * c.groups : kernel[0];
  c.channels_last = op[input].channels_last() || op[weight].channels_last();
  if (grad && op.tensor(0, 3)) {
    const std::array<std::int64_t, 4> out = four(op[0].shape());
    c.out_channels = out[1];
    c.out_h = out[2];
    c.out_w = out[3];
  } else if (transposed) {
    c.out_h = c.input[2] * c.stride;
    c.out_w = c.input[3] * c.stride;
  } else {
    const Shape pad = op.integers(padding);
    const Shape dil = op.integers(dilation);
    const auto at = [](const Shape& s, std::size_t i, std::int64_t otherwise) {
      return s.empty() ? otherwise : s[std::min(i, s.size() - 1)];
    };
    const bool flat = op[input].shape().size() == 3;
    c.out_h = flat ? 1 : output_size(c.input[2], c.kernel_h, c.stride, at(pad, 0, 0), at(dil, 0, 1));
    c.out_w = output_size(c.input[3], c.kernel_w, c.stride, at(pad, 1, 0), at(dil, 1, 1));
  }
  if (transposed) {
    // A transposed convolution is a data gradient: the roles of its input and output change places.
    std::swap(c.input[1], c.out_channels);
    std::swap(c.input[2], c.out_h);
    std::swap(c.input[3], c.out_w);
    if (!grad) work.family = Family::kConvDataGrad;
  }
  work.kind = c;
  refresh(work);
}

void describe_attention(Work& work, const OpClass& what, std::string_view name, const OpView& op) {
  const std::size_t q = what.form == Form::kAttentionGrad ? 1 : 0;
  if (!op.tensor(q, 4) || !op.tensor(q + 1, 4)) return;
  const Shape& query = op[q].shape();
  const Shape& key = op[q + 1].shape();
  // The inner flash and memory-efficient operations take batch x sequence x heads x size, all others heads first.
  const bool sequence_first =
      name.starts_with("aten::_flash_attention") || name.starts_with("aten::_efficient_attention");
  const std::size_t s = sequence_first ? 1 : 2;
  work.dtype = work.out_dtype = parse_dtype(op[q].type);
  Attention a;
  a.batch = query[0];
  a.heads = query[sequence_first ? 2 : 1];
  a.queries = query[s];
  a.keys = key[s];
  a.head_size = query[3];
  struct Flag {
    std::string_view name;
    std::size_t at;
  };
  static constexpr Flag kCausal[] = {
      {"aten::_flash_attention_forward", 8},
      {"aten::_flash_attention_backward", 11},
      {"aten::_scaled_dot_product_flash_attention", 4},
      {"aten::_scaled_dot_product_flash_attention_backward", 11},
      {"aten::_cudnn_attention_forward", 10},
      {"aten::_cudnn_attention_backward", 14},
      {"aten::_scaled_dot_product_cudnn_attention", 6},
      {"aten::_scaled_dot_product_efficient_attention", 6},
      {"aten::scaled_dot_product_attention", 5},
  };
  for (const Flag& f : kCausal) {
    if (f.name == name) a.causal = op.flag(f.at);
    // The probability of dropout stands just before the causal flag.
    if (f.name == name && f.at > 0) a.dropout = op.number(f.at - 1) > 0;
  }
  if (name == "aten::_efficient_attention_forward") {
    a.dropout = op.number(8) > 0;
    a.causal = op.integer(9, 0) != 0;
  }
  if (name == "aten::_efficient_attention_backward") {
    a.dropout = op.number(11) > 0;
    a.causal = op.integer(14, 0) != 0;
  }
  work.kind = a;
  refresh(work);
}

void describe_rnn(Work& work, const OpView& op) {
  if (!op.tensor(0, 3)) return;
  // (input, weights, weight_stride0, weight_buf, hx, cx, [output, grad_output, grad_hy, grad_cy,] mode, hidden, projection,
  //  layers, batch_first, dropout, train, bidirectional, …)
  const std::size_t mode = work.backward ? 10 : 6;
  const Shape& in = op[0].shape();
  const bool batch_first = op.flag(mode + 4);
  work.dtype = work.out_dtype = parse_dtype(op[0].type);
  Recurrent r;
  r.batch = in[batch_first ? 0 : 1];
  r.steps = in[batch_first ? 1 : 0];
  r.inputs = in[2];
  r.hidden = op.integer(mode + 1, 0);
  r.layers = std::max<std::int64_t>(1, op.integer(mode + 3, 1));
  r.directions = op.flag(mode + 7) ? 2 : 1;
  const std::int64_t cell = op.integer(mode, 2);  // 0 relu, 1 tanh, 2 LSTM, 3 GRU
  r.gates = cell == 2 ? 4 : cell == 3 ? 3 : 1;
  work.elements = r.batch * r.steps * r.hidden * r.directions;
  work.kind = r;
  refresh(work);
}

}  // namespace foretrace::work
