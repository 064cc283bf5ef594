// Operations whose time is arithmetic: matrix products, convolutions, attention, recurrent layers.

#include <algorithm>

#include "base/saturate.hpp"
#include "base/text.hpp"
#include "work/conv_unsaid.hpp"
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
  for (std::size_t i = 0; i + 2 < s.size(); ++i) m.batch = saturated_product(m.batch, s[i]);
  return m;
}

void set_gemm(Work& w, const Argument& a, const Argument& b, bool b_is_transposed, bool fold_batch) {
  Matrix left = matrix(a.shape());
  const Matrix right = matrix(b.shape());
  if (fold_batch) {
    left.rows = saturated_product(left.rows, left.batch);
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

// Where a convolution's operation has what decides its sizes; kNowhere for what it does not say.
struct ConvPlaces {
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
  std::size_t stride, padding, dilation, groups, output_padding = kNowhere, benchmark = kNowhere;
};

ConvPlaces places_of(Form form, std::string_view name) {
  const bool transposed = contains(name, "transpose");
  switch (form) {
    case Form::kConvGeneric:
      if (transposed) return {3, 4, 7, 6, 5};
      // aten::_convolution goes on with benchmark, deterministic, …; aten::convolution ends here.
      if (name.ends_with("_convolution")) return {3, 4, 5, 8, 7, 9};
      if (name.ends_with("convolution")) return {3, 4, 5, 8, 7};
      if (contains(name, "slow_conv") || contains(name, "thnn")) return {4, 5, 6, ConvPlaces::kNowhere};
      return {3, 4, 5, 6};  // conv1d, conv2d, conv3d
    case Form::kConvDepthwise:
      return {4, 5, 6, ConvPlaces::kNowhere};
    case Form::kConvBackward:
      return {4, 5, 6, 9, 8};
    default:
      if (transposed) return {4, 2, 5, 6, 3, 7};
      return {3, 2, 4, 5, ConvPlaces::kNowhere, 6};
  }
}

// The output's spatial sizes, one by one.
Shape output_sizes(const Shape& in, const Shape& kernel, const OpView& op, const ConvPlaces& at, bool transposed) {
  const auto value = [&](std::size_t place, std::size_t dim, std::int64_t otherwise) {
    constexpr std::int64_t kLargestValue = 1 << 20;  // no real one is larger, and products of them fit
    const Shape all = op.integers(place);
    return all.empty() ? otherwise : std::clamp(all[std::min(dim, all.size() - 1)], -kLargestValue, kLargestValue);
  };
  Shape out = in;
  for (std::size_t i = 2; i < in.size() && i < kernel.size(); ++i) {
    const std::int64_t stride = std::max<std::int64_t>(1, value(at.stride, i - 2, 1));
    const std::int64_t padding = value(at.padding, i - 2, 0);
    constexpr std::int64_t kLongest = std::int64_t{1} << 40;
    const std::int64_t size = std::clamp<std::int64_t>(in[i], 0, kLongest);
    const std::int64_t taps = std::clamp<std::int64_t>(kernel[i], 1, kLongest);
    const std::int64_t reach = value(at.dilation, i - 2, 1) * (taps - 1) + 1;
    out[i] = transposed ? (size - 1) * stride - 2 * padding + reach + value(at.output_padding, i - 2, 0)
                        : (size + 2 * padding - reach) / stride + 1;
    out[i] = std::max<std::int64_t>(out[i], 1);
  }
  return out;
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
    for (std::size_t i = 2; i + 1 < s.size(); ++i) out[2] = saturated_product(out[2], s[i]);
  }
  return out;
}

}  // namespace

void describe_gemm(Work& work, const OpClass& what, std::string_view /*name*/, const OpView& op) {
  const bool linear = what.form == Form::kLinear;
  const std::size_t a = what.form == Form::kAddmm || what.form == Form::kBaddbmm ? 1 : 0;  // behind the bias
  if (op.tensor(a, 1) && op.tensor(a + 1, 1)) set_gemm(work, op[a], op[a + 1], linear, linear);
}

void describe_conv(Work& work, const OpClass& what, std::string_view name, const OpView& op) {
  const bool grad = what.form == Form::kConvBackward;
  const std::size_t input = grad ? 1 : 0;
  const std::size_t weight = grad ? 2 : 1;
  if (!op.tensor(input, 3) || !op.tensor(weight, 3)) return;
  const ConvPlaces at = places_of(what.form, name);
  const bool transposed =
      contains(name, "transpose") || (what.form == Form::kConvGeneric && op.flag(6)) || (grad && op.flag(7));
  work.dtype = work.out_dtype = parse_dtype(op[input].type);
  Convolution c;
  c.input = four(op[input].shape());
  const std::array<std::int64_t, 4> kernel = four(op[weight].shape());
  c.kernel_h = kernel[2];
  c.kernel_w = kernel[3];
  c.stride = std::max<std::int64_t>(1, op.integer(at.stride, 1));
  c.dilation = std::max<std::int64_t>(1, op.integer(at.dilation, 1));
  c.dimensions = static_cast<std::int64_t>(op[input].shape().size()) - 2;
  c.tuned = at.benchmark != ConvPlaces::kNowhere && op.flag(at.benchmark);
  c.groups = what.form == Form::kConvDepthwise ? c.input[1] : std::max<std::int64_t>(1, op.integer(at.groups, 1));
  c.out_channels = transposed ? saturated_product(kernel[1], c.groups) : kernel[0];
  // Of a signal PyTorch makes an image of height 1, its tensors contiguous before it does (ATen's Convolution.cpp: "avoid accidentally going
  // through NHWC for permuted 3d input").
  const bool signal = c.dimensions == 1 || (c.dimensions == 2 && c.input[2] == 1 && c.kernel_h == 1);
  if (signal) c.dimensions = 1;
  c.channels_last = !signal && (op[input].channels_last() || op[weight].channels_last());
  const bool recorded = grad && op.tensor(0, 3);
  // Without the numbers only the tensors speak: the weight has the channels of one group, and convolutions are mostly padded
  // so that the result keeps its size.
  const bool unsaid = at.stride >= op.size() || op[at.stride].value.empty();
  if (unsaid && kernel[1] > 0 && what.form != Form::kConvDepthwise && c.input[1] % kernel[1] == 0)
    c.groups = c.input[1] / kernel[1];
  const std::array<std::int64_t, 4> out =
      four(recorded                ? op[0].shape()
           : unsaid && !transposed ? op[input].shape()
                                   : output_sizes(op[input].shape(), op[weight].shape(), op, at, transposed));
  if (recorded) c.out_channels = out[1];
  c.out_h = out[2];
  c.out_w = out[3];
  if (recorded && unsaid) c.stride = stride_between(c.input[3], c.out_w, c.kernel_w);
  if (transposed) {
    // A transposed convolution is a data gradient: the roles of its input and output change places. Its own data gradient is a forward
    // convolution.
    std::swap(c.input[1], c.out_channels);
    std::swap(c.input[2], c.out_h);
    std::swap(c.input[3], c.out_w);
    work.family = grad ? Family::kConvForward : Family::kConvDataGrad;
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
  const std::int64_t key_heads = key[sequence_first ? 2 : 1];
  if (key_heads > 0 && a.heads % key_heads == 0) a.shared = a.heads / key_heads;
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
  // A mask or bias stands behind queries, keys and values; cuDNN's gradient has its results and random state between.
  const bool biased =
      contains(name, "efficient") || contains(name, "cudnn") || name == "aten::scaled_dot_product_attention";
  const bool behind_state =
      name == "aten::_cudnn_attention_backward" || name == "aten::_scaled_dot_product_cudnn_attention_backward";
  a.masked = biased && op.tensor(behind_state ? 8 : q + 3, 2);
  work.kind = a;
  refresh(work);
}

namespace {

/// A recurrent layer of which only the tensors were recorded: the state shows units and layers, a second state that it is an LSTM, and
/// the weights in one buffer how many gates and directions there are.
void recurrent_from_tensors(Recurrent& r, const OpView& op) {
  constexpr std::size_t kWeights = 3, kState = 4, kCell = 5;
  if (!op.tensor(kState, 3)) return;
  const Shape& state = op[kState].shape();  // layers x directions, batch, units
  if (state[1] != r.batch && state[1] == r.steps) std::swap(r.batch, r.steps);
  r.hidden = state[2];
  const std::int64_t all = std::max<std::int64_t>(1, state[0]);
  const auto weights = [&](std::int64_t gates, std::int64_t directions) {
    std::int64_t sum = 0, inputs = r.inputs;
    for (std::int64_t layer = 0; layer < std::min<std::int64_t>(all / directions, 1000); ++layer) {
      sum += saturated_product({directions, gates, r.hidden, inputs + r.hidden + 2});
      inputs = r.hidden * directions;
    }
    return sum;
  };
  const bool lstm = op.tensor(kCell, 3);
  r.gates = lstm ? 4 : 3;
  r.directions = 1;
  const std::int64_t held = op.tensor(kWeights, 1) ? op[kWeights].elements() : 0;
  for (const std::int64_t gates : {4, 3, 1}) {
    for (const std::int64_t directions : {1, 2}) {
      if ((gates == 4) != lstm || all % directions != 0 || weights(gates, directions) != held) continue;
      r.gates = gates;
      r.directions = directions;
    }
  }
  r.layers = all / r.directions;
}

}  // namespace

void describe_rnn(Work& work, const OpClass& /*what*/, std::string_view /*name*/, const OpView& op) {
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
  if (mode >= op.size() || op[mode].value.empty()) recurrent_from_tensors(r, op);
  work.elements = saturated_product({r.batch, r.steps, r.hidden, r.directions});
  work.kind = r;
  refresh(work);
}

}  // namespace foretrace::work
