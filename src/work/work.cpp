#include "foretrace/work/work.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/saturate.hpp"

namespace foretrace::work {

std::string_view to_string(Access access) {
  static constexpr std::array<std::string_view, 5> kNames = {"contiguous", "mixed", "strided", "mixed strided",
                                                             "transposed"};
  return kNames[static_cast<std::size_t>(access)];
}

void Work::become(Family other) {
  family = other;
  if (kind_of(other).index() != kind.index()) kind = kind_of(other);
}

bool channels_last(const Work& work) {
  if (const auto* conv = std::get_if<Convolution>(&work.kind)) return conv->channels_last;
  if (const auto* norm = std::get_if<BatchNorm>(&work.kind)) return norm->channels_last;
  const auto* pool = std::get_if<Pooling>(&work.kind);
  return pool != nullptr && pool->channels_last;
}

Work gemm_work(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, Dtype dtype) {
  Work w(Family::kGemm);
  w.dtype = w.out_dtype = dtype;
  w.kind = Gemm{.batch = batch, .m = m, .n = n, .k = k};
  refresh(w);
  return w;
}

Work attention_work(std::int64_t batch, std::int64_t heads, std::int64_t queries, std::int64_t keys,
                    std::int64_t head_size, Dtype dtype, bool backward, bool causal, bool dropout) {
  Work w(Family::kAttention);
  w.dtype = w.out_dtype = dtype;
  w.backward = backward;
  w.kind = Attention{batch, heads, queries, keys, head_size, causal, dropout};
  refresh(w);
  return w;
}

Work cast_work(std::int64_t elements, Dtype from, Dtype to) {
  Work w(Family::kCopy);
  w.dtype = from;
  w.out_dtype = to;
  w.elements = elements;
  w.bytes_read = static_cast<double>(elements * bytes_of(from));
  w.bytes_written = static_cast<double>(elements * bytes_of(to));
  // PyTorch has vectorised kernels for float -> half, float -> bfloat16 and into FP8 only.
  const bool narrowing = (from == Dtype::kFp32 && is_half(to)) || to == Dtype::kFp8;
  w.access = from == to || narrowing ? Access::kContiguous : Access::kMixed;
  return w;
}

Work relayout_work(std::int64_t elements, Dtype dtype) {
  Work w = cast_work(elements, dtype, dtype);
  w.access = Access::kStrided;
  w.kind = Pointwise{.arithmetic = Arithmetic::kRelayout};
  return w;
}

Work elementwise_work(std::int64_t elements, int inputs, int outputs, Dtype dtype) {
  Work w(Family::kElementwise);
  w.dtype = w.out_dtype = dtype;
  w.elements = elements;
  w.bytes_read = static_cast<double>(elements * bytes_of(dtype) * inputs);
  w.bytes_written = static_cast<double>(elements * bytes_of(dtype) * outputs);
  w.flops = static_cast<double>(elements);
  return w;
}

Work optimizer_work(std::int64_t parameters, double bytes_read, double bytes_written, std::int64_t tensors) {
  Work w(Family::kOptimizer);
  w.elements = parameters;
  w.kind = Pointwise{.tensors = tensors};
  w.bytes_read = static_cast<double>(parameters) * bytes_read;
  w.bytes_written = static_cast<double>(parameters) * bytes_written;
  return w;
}

Work memory_work(std::int64_t bytes, bool host) {
  Work w(Family::kMemory);
  w.elements = bytes;
  w.bytes_read = w.bytes_written = static_cast<double>(bytes);
  w.kind = MemoryCopy{host};
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

namespace {

// Sizes that follow the samples.
struct MoreSamples {
  double x;
  bool by_columns;  // of a reduction: the samples are summed over

  void grow(std::int64_t& v) const {
    if (v != 0) v = std::max<std::int64_t>(1, saturated(std::round(static_cast<double>(v) * x)));
  }
  void operator()(Gemm& g) const { grow(g.weight_grad ? g.k : g.batch > 1 ? g.batch : g.m); }
  void operator()(Convolution& c) const { grow(c.input[0]); }
  void operator()(Attention& a) const { grow(a.batch); }
  void operator()(Recurrent& r) const { grow(r.batch); }
  void operator()(BatchNorm& b) const {
    grow(b.input[0]);
    grow(b.channel_elements);
  }
  void operator()(Pooling& p) const {
    grow(p.input[0]);
    grow(p.outputs);
  }
  void operator()(Rows& r) const {
    grow(by_columns ? r.columns : r.rows);
    grow(r.samples);
  }
  void operator()(Gather& g) const {
    grow(g.rows);
    grow(g.bags);
    if (g.sets > 1) {
      grow(g.sets);
    } else if (!g.parameter) {
      grow(g.table);  // of a graph's nodes, a batch's tokens
    }
  }
  void operator()(Pointwise&) const {}
  void operator()(MemoryCopy&) const {}
  void operator()(std::monostate&) const {}
};

}  // namespace

Work with_batch(const Work& work, double x) {
  Work w = work;
  // Bias gradients sum over the samples; everything else of rows has them per sample.
  const MoreSamples more{x, w.family == Family::kReduction && w.access != Access::kContiguous};
  std::visit(more, w.kind);
  if (!is_product(w)) {
    more.grow(w.elements);
    w.flops *= x;
    w.bytes_read *= x, w.bytes_written *= x, w.fixed_read *= x, w.fixed_written *= x;
  }
  w.strict_ns *= x;
  refresh(w);
  return w;
}

Work with_layout(const Work& work, bool channels_last) {
  Work w = work;
  if (auto* conv = std::get_if<Convolution>(&w.kind)) conv->channels_last = channels_last;
  if (auto* norm = std::get_if<BatchNorm>(&w.kind)) norm->channels_last = channels_last;
  if (auto* pool = std::get_if<Pooling>(&w.kind)) pool->channels_last = channels_last;
  return w;
}

}  // namespace foretrace::work
