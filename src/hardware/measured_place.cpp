// Bounds and features of the families that measured operations tell. Features are logarithms of sizes, and what makes a
// library take another kernel: alignment, windows, how many tiles there are for each SM.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "hardware/cost_product.hpp"
#include "hardware/measured.hpp"

namespace foretrace::hardware {

namespace {

double log_of(double v) { return std::log(std::max(v, 1.0)); }
double as_double(std::int64_t v) { return static_cast<double>(v); }

// Elements that one access of 16 bytes in half precision can take along a row: 0 for all eight, 3 for one.
double misalignment(std::int64_t row) { return row % 8 == 0 ? 0 : row % 4 == 0 ? 1 : row % 2 == 0 ? 2 : 3; }

std::string_view type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kTf32:
      return "tf32";
    case Dtype::kFp16:
      return "fp16";
    case Dtype::kBf16:
      return "bf16";
    default:
      return "fp32";
  }
}

std::string_view way(const Work& w) { return w.backward ? " bwd " : " fwd "; }

class Builder {
 public:
  explicit Builder(std::string pool) { place_.pool = std::move(pool); }
  Builder& feature(double v) {
    place_.at[place_.features++] = v;
    return *this;
  }
  Builder& tuned(bool yes) {
    place_.tuned = yes;
    return *this;
  }
  MeasuredPlace bound(double us) {
    place_.bound_us = us;
    return std::move(place_);
  }

 private:
  MeasuredPlace place_;
};

// What measured times are told as multiples of: a bound made of the start and end of a kernel, its arithmetic at a share of the peak
// and its bytes. The shares (0.7, 0.5) are choices near what large kernels reach; where they are off, all samples of a pool are,
// and the table holds how much.
constexpr double kStartUs = 2.0;

std::optional<MeasuredPlace> place(const Work& w, const Convolution& c, const Device& d) {
  if (c.input[0] <= 0 || w.flops <= 0) return std::nullopt;
  const bool data = w.family == Family::kConvDataGrad;
  const bool filter = w.family == Family::kConvWeightGrad;
  const std::string_view shape = c.groups <= 1 ? " dense " : c.depthwise() ? " depthwise " : " grouped ";
  std::string pool = filter ? "conv wgrad" : data ? "conv dgrad" : "conv fwd";
  pool.append(shape).append(type_of(w.dtype)).append(c.channels_last ? " nhwc" : " nchw");
  const double groups = as_double(std::max<std::int64_t>(1, c.groups));
  const double in = as_double(c.input[1]) / groups;
  const double out = as_double(c.out_channels) / groups;
  const double taps = as_double(c.kernel_h) * as_double(c.kernel_w);
  const double samples = as_double(c.input[0]);
  const double outputs = as_double(c.out_h) * as_double(c.out_w);
  const double inputs = as_double(c.input[2]) * as_double(c.input[3]);
  // As a product: rows x columns, summed over depth.
  const double skipped = std::pow(as_double(c.stride), as_double(std::clamp<std::int64_t>(c.dimensions, 1, 3)));
  const double m = filter ? out : data ? samples * inputs : samples * outputs;
  const double n = filter ? in * taps : data ? in : out;
  const double k = filter ? samples * outputs : data ? out * taps / skipped : in * taps;
  const double tiles = std::ceil(m / 128) * std::ceil(n / 128) * groups / std::max(1, d.sm_count);
  const double edges = as_double(std::max(c.kernel_h, c.kernel_w)) /
                       as_double(std::max<std::int64_t>(1, std::min(c.kernel_h, c.kernel_w)));
  // Without tensor cores one channel per group is no product.
  const double peak = c.depthwise() ? d.tflops_fp32 : d.tflops(w.dtype);
  const double compute = peak > 0 ? w.flops / (peak * 1e6) : 0;
  // Channels-first tensors are turned around, there and back, for tensor cores.
  const double passes = c.channels_last || w.dtype == Dtype::kFp32 || c.depthwise() ? 1 : 2;
  return Builder(std::move(pool))
      .feature(log_of(m))
      .feature(log_of(n))
      .feature(log_of(k))
      .feature(log_of(in))
      .feature(log_of(out))
      .feature(log_of(outputs))
      .feature(log_of(taps))
      .feature(log_of(edges))
      .feature(2 * log_of(as_double(c.stride)))
      .feature(log_of(as_double(c.dilation)))
      .feature(misalignment(c.input[1]))
      .feature(misalignment(c.out_channels))
      .feature(as_double(c.dimensions))
      .feature(log_of(groups))
      .feature(std::min(std::log(std::max(tiles, 1e-3)), 3.0))
      .feature(std::log(std::ceil(n / 64) * 64 / std::max(n, 1.0)))
      .feature(misalignment(c.out_h * c.out_w))
      .tuned(c.tuned)
      .bound(2 * kStartUs + compute / 0.7 +  // 0.7: see kStartUs
             passes * stream_us(w.bytes(), d));
}

/// What the law of products says, remembered: it takes microseconds, a step repeats its products, and a search asks for the same
/// step hundreds of times. Of two devices, those a step is moved between.
class KnownProducts {
 public:
  double us(const Work& w, const Gemm& g, const Device& d) {
    Times& times = times_on(d);
    if (times.size() >= kMost) times.clear();
    const auto [it, added] = times.try_emplace({g.batch, g.m, g.n, g.k, static_cast<std::int64_t>(w.dtype)}, 0.0);
    if (added) it->second = best_product_us(w, TransferWeights::shipped(), d);
    return it->second;
  }

 private:
  static constexpr std::size_t kMost = 4096;
  using Times = std::map<std::array<std::int64_t, 5>, double>;
  struct OnDevice {
    Device device;
    Times times;
  };

  static bool same_law(const Device& a, const Device& b) {
    return same_device(a, b) && a.architecture == b.architecture && a.rated_sms == b.rated_sms &&
           a.rated_clock_mhz == b.rated_clock_mhz;
  }
  Times& times_on(const Device& d) {
    for (std::optional<OnDevice>& known : devices_) {
      if (known && same_law(known->device, d)) return known->times;
    }
    oldest_ = 1 - oldest_;
    return devices_[1 - oldest_].emplace(OnDevice{d, {}}).times;
  }

  std::array<std::optional<OnDevice>, 2> devices_;
  std::size_t oldest_ = 0;
};

double product_bound_us(const Work& w, const Gemm& g, const Device& d) {
  static thread_local KnownProducts known;
  return known.us(w, g, d);
}

// The law knows sizes and the device; the pools what it does not: how operands lie (tensor cores read TF32 along k only), whether a
// 16-byte access fits their rows (else kernels of older generations run, chosen by rules nobody publishes), and vectors, for
// which there are kernels without tiles.
std::optional<MeasuredPlace> place(const Work& w, const Gemm& g, const Device& d) {
  if (g.m <= 0 || g.n <= 0 || g.k <= 0 || d.sm_count <= 0) return std::nullopt;
  const Product product = product_of(w, d);
  const bool half = product.element_bytes <= 2;
  const bool vector = g.m == 1 || g.n == 1 || g.k == 1;
  std::string pool = "gemm ";
  pool.append(type_of(product.dtype == Dtype::kFp8 ? Dtype::kBf16 : product.dtype));
  if (vector) {
    pool.append(" vector");
  } else {
    if (product.kind == ProductKind::kFp32Batched) {
      pool.append(" batched");
    } else if (product.dtype != Dtype::kFp32) {
      pool.append(g.alignment() >= (half ? 8 : 4) ? " aligned" : " odd");
    }
    pool.append(g.a_transposed ? " tn" : g.b_transposed ? " nt" : " nn");
  }
  const double tiles =
      as_double(g.batch) * std::ceil(as_double(g.m) / 128) * std::ceil(as_double(g.n) / 128) / std::max(1, d.sm_count);
  const auto waste = [](std::int64_t size) {
    const double s = as_double(std::max<std::int64_t>(1, size));
    return std::log(std::ceil(s / 64) * 64 / s);
  };
  return Builder(std::move(pool))
      .feature(log_of(as_double(g.batch)))
      .feature(log_of(as_double(g.m)))
      .feature(log_of(as_double(g.n)))
      .feature(log_of(as_double(g.k)))
      .feature(std::log2(as_double(std::min<std::int64_t>(g.alignment(), 8))))
      .feature(std::min(std::log(std::max(tiles, 1e-3)), 3.0))
      .feature(misalignment(g.m))
      .feature(misalignment(g.n))
      .feature(misalignment(g.k))
      .feature(waste(g.m))
      .feature(waste(g.n))
      .bound(product_bound_us(w, g, d));
}

std::optional<MeasuredPlace> place(const Work& w, const Attention& a, const Device& d) {
  if (a.queries <= 0 || a.keys <= 0 || a.head_size <= 0 || w.flops <= 0) return std::nullopt;
  std::string pool = "attention";
  pool.append(way(w)).append(type_of(w.dtype));
  const double peak = is_half(w.dtype) ? d.tflops(w.dtype) : d.tflops_fp32;
  const double heads = as_double(a.batch) * as_double(a.heads);
  const double rows = std::ceil(as_double(a.queries) / 128) * heads / std::max(1, d.sm_count);
  const auto waste = [](std::int64_t size, double tile) {
    const double s = as_double(size);
    return std::log(std::ceil(s / tile) * tile / s);
  };
  return Builder(std::move(pool))
      .feature(log_of(heads))
      .feature(log_of(as_double(a.queries)))
      .feature(log_of(as_double(a.keys)))
      .feature(log_of(as_double(a.head_size)))
      .feature(a.causal ? 1 : 0)
      .feature(a.dropout ? 1 : 0)
      .feature(a.masked ? 1 : 0)
      .feature(std::log(std::max(rows, 1e-3)))
      .feature(waste(a.queries, 128))
      .feature(waste(a.keys, 64))
      .feature(misalignment(a.head_size))
      .feature(a.head_size > 128  ? 1
               : a.head_size > 64 ? 0.5
                                  : 0)
      .bound(2 * kStartUs + (peak > 0 ? w.flops / (peak * 0.7e6) : 0) +  // 0.7: see kStartUs
             stream_us(w.bytes(), d));
}

std::optional<MeasuredPlace> place(const Work& w, const Recurrent& r, const Device& d) {
  if (r.hidden <= 0 || r.steps <= 0 || r.batch <= 0) return std::nullopt;
  std::string pool = "rnn";
  pool.append(way(w)).append(type_of(w.dtype));
  // Step after step, layer after layer; directions run side by side and are counted both.
  const double steps = as_double(r.steps) * as_double(std::max<std::int64_t>(1, r.layers)) * as_double(r.directions);
  const double peak = d.tflops(w.dtype);
  return Builder(std::move(pool))
      .feature(log_of(as_double(r.batch)))
      .feature(log_of(as_double(r.steps)))
      .feature(log_of(as_double(r.inputs)))
      .feature(log_of(as_double(r.hidden)))
      .feature(log_of(as_double(r.layers)))
      .feature(log_of(as_double(r.directions)))
      .feature(log_of(as_double(r.gates)))
      .feature(misalignment(r.hidden))
      .feature(misalignment(r.inputs))
      .feature(persistent_rnn(w.dtype, r) ? 1 : 0)
      .feature(r.hidden <= 384 ? 1 : 0)
      .feature(misalignment(r.batch))
      .bound((w.backward ? 4 : 2) * kStartUs * steps + (peak > 0 ? w.flops / (peak * 0.5e6) : 0) +
             stream_us(w.bytes(), d));
}

std::optional<MeasuredPlace> place(const Work& w, const BatchNorm& b, const Device& d) {
  if (w.elements <= 0 || w.bytes() <= 0 || b.input[0] <= 0) return std::nullopt;
  // cuDNN trains batch norm in fp32 and fp16; in bf16 the framework's own kernels do.
  // Vectors have their channels innermost, whatever they are called.
  const double pixels = as_double(b.input[2]) * as_double(b.input[3]);
  std::string pool = "batch_norm";
  pool.append(way(w))
      .append(type_of(w.dtype == Dtype::kTf32 ? Dtype::kFp32 : w.dtype))
      .append(b.channels_last || pixels == 1 ? " nhwc" : " nchw");
  const double channel = as_double(b.input[0]) * pixels;
  // A channel that fits on chip (about 150 KB) is read once.
  const double kept = channel * as_double(bytes_of(w.dtype)) * (w.backward ? 2 : 1) / 150e3;
  return Builder(std::move(pool))
      .feature(log_of(as_double(b.input[0])))
      .feature(log_of(as_double(b.input[1])))
      .feature(log_of(pixels))
      .feature(log_of(channel))
      .feature(kept <= 1 ? 0 : 1)
      .feature(std::log(std::ceil(as_double(b.input[1]) / std::max(1, d.sm_count))))
      .feature(misalignment(b.input[2] * b.input[3]))
      .bound(kStartUs + stream_us(w.bytes(), d));
}

std::optional<MeasuredPlace> place(const Work& w, const Pooling& p, const Device& d) {
  static constexpr std::string_view kNames[] = {"max_pool", "avg_pool", "adaptive_avg_pool", "nearest", "bilinear",
                                                "bicubic",  ""};
  const std::string_view name = kNames[static_cast<std::size_t>(p.of)];
  if (name.empty() || p.input[0] <= 0 || w.bytes() <= 0) return std::nullopt;
  std::string pool(name);
  pool.append(way(w)).append(is_half(w.dtype) ? "half" : "fp32").append(p.channels_last ? " nhwc" : " nchw");
  const double inputs = as_double(p.input[0]) * as_double(p.input[1]) * as_double(p.input[2]) * as_double(p.input[3]);
  return Builder(std::move(pool))
      .feature(log_of(as_double(p.input[0])))
      .feature(log_of(as_double(p.input[1])))
      .feature(log_of(as_double(p.input[2]) * as_double(p.input[3])))
      .feature(std::log(std::max(inputs, 1.0) / std::max(as_double(p.outputs), 1.0)))
      .feature(log_of(as_double(p.window)))
      .feature(log_of(inputs))
      .feature(misalignment(p.input[1]))
      .bound(kStartUs + stream_us(w.bytes(), d));
}

std::optional<MeasuredPlace> place(const Work& w, const Rows& r, const Device& d) {
  if (r.rows <= 0 || r.columns <= 0 || w.bytes() <= 0) return std::nullopt;
  std::string pool;
  switch (w.family) {
    case Family::kLayerNorm:
      pool = r.groups ? "group_norm" : "layer_norm";
      break;
    case Family::kSoftmax:
      pool = "softmax";
      break;
    case Family::kLoss:
      // One element of a row, or all of them.
      pool = w.bytes_read < 2 * as_double(w.elements) * as_double(bytes_of(w.dtype)) ? "nll_loss" : "mse_loss";
      break;
    case Family::kReduction:
      // Planes of every sample and single long rows were not measured.
      if (w.access == Access::kTransposed || std::min(r.rows, r.columns) < 5) return std::nullopt;
      pool = w.access == Access::kContiguous ? "sum_rows" : "sum_columns";
      break;
    default:
      return std::nullopt;
  }
  const bool wider = w.family == Family::kSoftmax && is_half(w.dtype) && !is_half(w.out_dtype) && !w.backward;
  pool.append(wider ? " up " : way(w)).append(is_half(w.dtype) ? "half" : "fp32");
  return Builder(std::move(pool))
      .feature(log_of(as_double(r.rows)))
      .feature(log_of(as_double(r.columns)))
      .feature(log_of(as_double(r.rows) * as_double(r.columns)))
      .feature(misalignment(r.columns))
      .bound(kStartUs + stream_us(w.bytes(), d));
}

struct PlaceOfKind {
  const Work& w;
  const Device& d;
  template <class Kind>
  std::optional<MeasuredPlace> operator()(const Kind& kind) const {
    if constexpr (requires { place(w, kind, d); }) {
      return place(w, kind, d);
    } else {
      return std::nullopt;
    }
  }
};

}  // namespace

std::optional<MeasuredPlace> measured_place(const Work& work, const Device& device) {
  if (device.sm_count <= 0) return std::nullopt;
  std::optional<MeasuredPlace> found = std::visit(PlaceOfKind{work, device}, work.kind);
  if (found && !(found->bound_us > 0 && std::isfinite(found->bound_us))) return std::nullopt;
  return found;
}

}  // namespace foretrace::hardware
