#include "foretrace/work/work.hpp"

#include <algorithm>
#include <cmath>

namespace foretrace::work {

std::string_view to_string(Family family) {
  static constexpr std::array<std::string_view, kFamilies> kNames = {
      "gemm",          "conv forward", "conv data grad", "conv weight grad",
      "attention",     "batch norm",   "layer norm",     "softmax",
      "elementwise",   "reduction",    "copy",           "optimizer",
      "embedding",     "pooling",      "loss",           "rnn",
      "communication", "memory",       "other"};
  return kNames[static_cast<std::size_t>(family)];
}

std::string_view to_string(Access access) {
  static constexpr std::array<std::string_view, 5> kNames = {"contiguous", "mixed", "strided", "mixed strided",
                                                             "transposed"};
  return kNames[static_cast<std::size_t>(access)];
}

std::int64_t Work::alignment() const {
  const std::int64_t a = a_transposed ? m : k;
  const std::int64_t b = b_transposed ? k : n;
  std::int64_t power = 1;
  while (power < 16 && a % (power * 2) == 0 && b % (power * 2) == 0 && n % (power * 2) == 0) power *= 2;
  return power;
}

void refresh(Work& w) {
  const double in = static_cast<double>(bytes_of(w.dtype));
  const double out = static_cast<double>(bytes_of(w.out_dtype));
  if (w.family == Family::kGemm) {
    const double b = static_cast<double>(w.batch);
    const double m = static_cast<double>(w.m), n = static_cast<double>(w.n), k = static_cast<double>(w.k);
    w.flops = 2 * b * m * n * k;
    w.bytes_read = b * (m * k + k * n) * in;
    w.bytes_written = b * m * n * out;
    w.elements = w.batch * w.m * w.n;
  } else if (w.is_conv()) {
    const double x = static_cast<double>(w.input[0]) * static_cast<double>(w.input[1]) *
                     static_cast<double>(w.input[2]) * static_cast<double>(w.input[3]);
    const double taps = static_cast<double>(w.kernel_h) * static_cast<double>(w.kernel_w);
    const double depth = static_cast<double>(w.input[1]) / static_cast<double>(w.groups);
    const double y = static_cast<double>(w.input[0]) * static_cast<double>(w.out_channels) *
                     static_cast<double>(w.out_h) * static_cast<double>(w.out_w);
    const double weights = static_cast<double>(w.out_channels) * depth * taps;
    w.flops = 2 * y * depth * taps;
    const bool data = w.family == Family::kConvDataGrad;
    const bool filter = w.family == Family::kConvWeightGrad;
    w.bytes_read = in * (data ? y + weights : filter ? x + y : x + weights);
    w.bytes_written = out * (data ? x : filter ? weights : y);
    w.elements = static_cast<std::int64_t>(data ? x : filter ? weights : y);
  } else if (w.family == Family::kAttention) {
    const double heads = static_cast<double>(w.batch * w.heads);
    const double q = static_cast<double>(w.queries), s = static_cast<double>(w.keys),
                 d = static_cast<double>(w.head_size);
    // Two products forward; five backward, one of which recomputes the scores.
    w.flops = heads * 4 * q * s * d * (w.causal ? 0.5 : 1.0) * (w.backward ? 2.5 : 1.0);
    const double row = heads * q * d * in;
    const double column = heads * s * d * in;
    w.bytes_read = w.backward ? 3 * row + 2 * column : row + 2 * column;
    w.bytes_written = w.backward ? row + 2 * column : row;
    w.elements = w.batch * w.heads * w.queries * w.head_size;
  } else if (w.family == Family::kRnn && w.hidden > 0) {
    const double h = static_cast<double>(w.hidden);
    const double dirs = static_cast<double>(w.directions);
    double inputs = static_cast<double>(w.k) + h;
    for (std::int64_t l = 1; l < w.layers; ++l) inputs += h * dirs + h;
    const double weights = dirs * static_cast<double>(w.gates) * h * inputs;
    const double samples = static_cast<double>(w.batch * w.steps);
    w.flops = 2 * samples * weights * (w.backward ? 2 : 1);
    w.bytes_read = in * (weights + samples * (static_cast<double>(w.k) + (w.backward ? 2 : 0) * h * dirs));
    w.bytes_written = in * ((w.backward ? weights : 0) + samples * (w.backward ? static_cast<double>(w.k) : h * dirs));
  }
}

Work gemm_work(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, Dtype dtype) {
  Work w;
  w.family = Family::kGemm;
  w.dtype = w.out_dtype = dtype;
  w.batch = batch, w.m = m, w.n = n, w.k = k;
  refresh(w);
  return w;
}

Work attention_work(std::int64_t batch, std::int64_t heads, std::int64_t queries, std::int64_t keys,
                    std::int64_t head_size, Dtype dtype, bool backward, bool causal, bool dropout) {
  Work w;
  w.family = Family::kAttention;
  w.dtype = w.out_dtype = dtype;
  w.backward = backward;
  w.causal = causal;
  w.dropout = dropout;
  w.batch = batch, w.heads = heads, w.queries = queries, w.keys = keys, w.head_size = head_size;
  refresh(w);
  return w;
}

Work cast_work(std::int64_t elements, Dtype from, Dtype to) {
  Work w;
  w.family = Family::kCopy;
  w.dtype = from;
  w.out_dtype = to;
  w.elements = elements;
  w.bytes_read = static_cast<double>(elements * bytes_of(from));
  w.bytes_written = static_cast<double>(elements * bytes_of(to));
  // PyTorch has vectorised kernels for float -> half and float -> bfloat16 only.
  const bool narrowing = from == Dtype::kFp32 && (to == Dtype::kFp16 || to == Dtype::kBf16);
  w.access = from == to || narrowing ? Access::kContiguous : Access::kMixed;
  return w;
}

Work elementwise_work(std::int64_t elements, int inputs, int outputs, Dtype dtype) {
  Work w;
  w.family = Family::kElementwise;
  w.dtype = w.out_dtype = dtype;
  w.elements = elements;
  w.bytes_read = static_cast<double>(elements * bytes_of(dtype) * inputs);
  w.bytes_written = static_cast<double>(elements * bytes_of(dtype) * outputs);
  w.flops = static_cast<double>(elements);
  return w;
}

Work optimizer_work(std::int64_t parameters, double bytes_read, double bytes_written, std::int64_t tensors) {
  Work w;
  w.family = Family::kOptimizer;
  w.elements = parameters;
  w.tensors = tensors;
  w.bytes_read = static_cast<double>(parameters) * bytes_read;
  w.bytes_written = static_cast<double>(parameters) * bytes_written;
  return w;
}

Work memory_work(std::int64_t bytes, bool host) {
  Work w;
  w.family = Family::kMemory;
  w.elements = bytes;
  w.bytes_read = w.bytes_written = static_cast<double>(bytes);
  w.host = host;
  return w;
}

Work with_dtype(const Work& work, Dtype dtype) {
  Work w = work;
  const double factor = static_cast<double>(bytes_of(dtype)) / static_cast<double>(bytes_of(work.dtype));
  w.bytes_read = w.fixed_read + (w.bytes_read - w.fixed_read) * factor;
  w.bytes_written = w.fixed_written + (w.bytes_written - w.fixed_written) * factor;
  if (w.out_dtype == w.dtype) w.out_dtype = dtype;
  w.dtype = dtype;
  // All operands are now of one type.
  if (w.access == Access::kMixed) w.access = Access::kContiguous;
  if (w.access == Access::kMixedStrided) w.access = Access::kStrided;
  refresh(w);
  return w;
}

Work with_batch(const Work& work, double x) {
  Work w = work;
  const auto times = [x](std::int64_t v) {
    return v == 0 ? 0 : std::max<std::int64_t>(1, std::llround(static_cast<double>(v) * x));
  };
  if (w.family == Family::kGemm) {
    (w.weight_grad ? w.k : w.batch > 1 ? w.batch : w.m) = times(w.weight_grad ? w.k : w.batch > 1 ? w.batch : w.m);
  } else if (w.is_conv()) {
    w.input[0] = times(w.input[0]);
  } else if (w.family == Family::kAttention || w.family == Family::kRnn) {
    w.batch = times(w.batch);
  } else {
    w.input[0] = times(w.input[0]);
    // Batch statistics and bias gradients reduce over the samples; everything else has rows per sample.
    const bool over_samples =
        w.family == Family::kBatchNorm || (w.family == Family::kReduction && w.access != Access::kContiguous);
    (over_samples ? w.columns : w.rows) = times(over_samples ? w.columns : w.rows);
    w.elements = times(w.elements);
    w.flops *= x;
    w.bytes_read *= x, w.bytes_written *= x, w.fixed_read *= x, w.fixed_written *= x;
  }
  refresh(w);
  return w;
}

Work with_layout(const Work& work, bool channels_last) {
  Work w = work;
  w.channels_last = channels_last;
  return w;
}

}  // namespace foretrace::work
