// Laws and features of the kinds of work that have measured kernels. Features are logarithms of sizes, and what makes a library
// take another kernel: alignment, windows, how many tiles there are for each SM.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "hardware/choice/chooser.hpp"
#include "hardware/cost_attention.hpp"
#include "hardware/cost_product.hpp"
#include "hardware/cost_recurrent.hpp"
#include "hardware/features_builder.hpp"
#include "hardware/law_conv.hpp"
#include "hardware/tables.hpp"

namespace foretrace::hardware {

namespace {

std::optional<KernelFeatures> features(const Work& w, const Convolution& c, const Device& d, const Tables& t,
                                       bool with_law) {
  if (c.input[0] <= 0 || w.flops <= 0) return std::nullopt;
  const bool data = w.family == Family::kConvDataGrad;
  const bool filter = w.family == Family::kConvWeightGrad;
  const std::string_view shape = c.groups <= 1 ? " dense " : c.depthwise() ? " depthwise " : " grouped ";
  std::string category = filter ? "conv wgrad" : data ? "conv dgrad" : "conv fwd";
  category.append(shape).append(type_of(w.dtype)).append(c.channels_last ? " nhwc" : " nchw");
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
  return Builder(std::move(category))
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
      .autotuned(c.tuned)
      .law(with_law ? convolution_us(w, t, d) : 0);
}

/// What the law of products says, remembered: it takes microseconds, a step repeats its products, and a search asks for the same
/// step hundreds of times. Of two devices, those a step is moved between.
class KnownProducts {
 public:
  double us(const Work& w, const Gemm& g, const TransferWeights& weights, const Device& d) {
    Times& times = times_on(d, weights);
    constexpr std::size_t kLargest = 4096;  // by definition of a guard: a step has a few hundred products
    if (times.size() >= kLargest) times.clear();
    const auto [it, added] = times.try_emplace({g.batch, g.m, g.n, g.k, static_cast<std::int64_t>(w.dtype)}, 0.0);
    if (added) it->second = best_product_us(w, weights, d);
    return it->second;
  }

 private:
  using Times = std::map<std::array<std::int64_t, 5>, double>;
  struct OnDevice {
    Device device;
    const TransferWeights* weights;
    Times times;
  };

  static bool same_law(const Device& a, const Device& b) {
    return a.name == b.name && same_device(a, b) && a.architecture == b.architecture && a.rated_sms == b.rated_sms &&
           a.rated_clock_mhz == b.rated_clock_mhz;
  }
  Times& times_on(const Device& d, const TransferWeights& weights) {
    for (std::optional<OnDevice>& known : devices_) {
      if (known && known->weights == &weights && same_law(known->device, d)) return known->times;
    }
    oldest_ = 1 - oldest_;
    return devices_[1 - oldest_].emplace(OnDevice{d, &weights, {}}).times;
  }

  std::array<std::optional<OnDevice>, 2> devices_;
  std::size_t oldest_ = 0;
};

double known_product_us(const Work& w, const Gemm& g, const Tables& t, const Device& d) {
  static thread_local KnownProducts known;
  return known.us(w, g, t.products(), d);
}

// The law knows sizes and the device; the category what it does not: how operands are (tensor cores read TF32 along k only), whether a
// 16-byte access fits their rows (else kernels of older generations run, chosen by unpublished rules), and vectors, for
// which there are kernels without tiles.
std::optional<KernelFeatures> features(const Work& w, const Gemm& g, const Device& d, const Tables& t, bool with_law) {
  if (g.m <= 0 || g.n <= 0 || g.k <= 0 || d.sm_count <= 0) return std::nullopt;
  const Product product = product_of(w, d);
  const bool half = product.element_bytes <= 2;
  const bool vector = g.m == 1 || g.n == 1 || g.k == 1;
  std::string category = "gemm ";
  category.append(type_of(product.dtype == Dtype::kFp8 ? Dtype::kBf16 : product.dtype));
  if (vector) {
    category.append(" vector");
  } else {
    if (product.kind == ProductKind::kFp32Batched) {
      category.append(" batched");
    } else if (product.dtype != Dtype::kFp32) {
      category.append(g.alignment() >= (half ? 8 : 4) ? " aligned" : " odd");
    }
    category.append(g.a_transposed ? " tn" : g.b_transposed ? " nt" : " nn");
  }
  const double tiles =
      as_double(g.batch) * std::ceil(as_double(g.m) / 128) * std::ceil(as_double(g.n) / 128) / std::max(1, d.sm_count);
  const auto waste = [](std::int64_t size) {
    const double s = as_double(std::max<std::int64_t>(1, size));
    return std::log(std::ceil(s / 64) * 64 / s);
  };
  return Builder(std::move(category))
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
      .product(fitted_kind(product))
      .law(with_law ? known_product_us(w, g, t, d) : 0);
}

std::optional<KernelFeatures> features(const Work& w, const Attention& a, const Device& d, const Tables& t) {
  if (a.queries <= 0 || a.keys <= 0 || a.head_size <= 0 || w.flops <= 0) return std::nullopt;
  std::string category = "attention";
  category.append(pass_name(w)).append(type_of(w.dtype));
  const double heads = as_double(a.batch) * as_double(a.heads);
  const double rows = std::ceil(as_double(a.queries) / 128) * heads / std::max(1, d.sm_count);
  const double held = heads * (as_double(a.queries) + as_double(a.keys)) * as_double(a.head_size * bytes_of(w.dtype));
  const auto waste = [](std::int64_t size, double tile) {
    const double s = as_double(size);
    return std::log(std::ceil(s / tile) * tile / s);
  };
  return Builder(std::move(category))
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
      .feature(log_of(as_double(a.shared)))
      .feature(std::log(held / std::max(1.0, d.l2_mb * 1e6)))
      .law(attention_us(w, a, t.laws(), d));
}

std::optional<KernelFeatures> features(const Work& w, const Recurrent& r, const Device& d, const Tables& t) {
  if (r.hidden <= 0 || r.steps <= 0 || r.batch <= 0) return std::nullopt;
  std::string category = "rnn";
  category.append(pass_name(w)).append(type_of(w.dtype)).append(suffix(recurrent_kernel(w, r)));
  return Builder(std::move(category))
      .feature(log_of(as_double(r.batch)))
      .feature(log_of(as_double(r.steps)))
      .feature(log_of(as_double(r.inputs)))
      .feature(log_of(as_double(r.hidden)))
      .feature(log_of(as_double(r.layers)))
      .feature(log_of(as_double(r.directions)))
      .feature(log_of(as_double(r.gates)))
      .feature(misalignment(r.hidden))
      .feature(misalignment(r.inputs))
      .feature(misalignment(r.batch))
      .law(recurrent_us(w, r, t.products(), t.laws(), d));
}

struct FeaturesOfKind {
  const Work& w;
  const Device& d;
  const Tables& t;
  const Clocks& c;
  bool with_law;
  template <class Kind>
  std::optional<KernelFeatures> operator()(const Kind& kind) const {
    if constexpr (requires { features(w, kind, d, t, with_law); }) {
      return features(w, kind, d, t, with_law);
    } else if constexpr (requires { features(w, kind, d, t); }) {
      return features(w, kind, d, t);
    } else if constexpr (requires { features(w, kind, d, c); }) {
      return features(w, kind, d, c);
    } else {
      return std::nullopt;
    }
  }
};

}  // namespace

std::optional<KernelFeatures> kernel_features(const Work& work, const Device& device, const Tables& tables,
                                              const Clocks& clocks) {
  if (device.sm_count <= 0) return std::nullopt;
  std::optional<KernelFeatures> found = std::visit(FeaturesOfKind{work, device, tables, clocks, true}, work.kind);
  if (found && !(found->law_us > 0 && std::isfinite(found->law_us))) return std::nullopt;
  return found;
}

std::optional<KernelFeatures> kernel_features(const Work& work, const Device& device, const Tables& tables) {
  return kernel_features(work, device, tables, tables.of(device).clocks);
}

std::optional<KernelFeatures> features_without_law(const Work& work, const Device& device, const Tables& tables,
                                                   const Clocks& clocks) {
  return device.sm_count <= 0 ? std::nullopt
                              : std::visit(FeaturesOfKind{work, device, tables, clocks, false}, work.kind);
}

}  // namespace foretrace::hardware
