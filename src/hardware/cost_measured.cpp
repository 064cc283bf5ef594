// Families whose kernels reach a share of the bandwidth that depends on the shape in no simple way. Measured kernels of like
// shape tell it: the mean log share of the four nearest, weighted by closeness, times what the device could do at best.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "foretrace/base/result.hpp"
#include "hardware/cost_models.hpp"

namespace foretrace::hardware {

std::span<const std::pair<std::string_view, std::string_view>> kernel_files();  // generated from kernels/*.csv

namespace {

using Features = std::array<double, 3>;

struct Sample {
  Features at{};
  double log_share = 0;  // log(time / ideal)
};

struct Pool {
  std::vector<Sample> samples;
  double sigma = 0.3;  // leaving one sample out
};

// Kernels differ between these: one pool each.
using Key = std::array<int, 6>;
constexpr int kGroupNorm = 100;  // beside the kinds of pooling

// cuDNN trains batch norm in fp32 and fp16; in bf16 the framework's own kernels do, which read the images once more.
bool framework_norm(const Work& w) { return w.family == Family::kBatchNorm && w.dtype == Dtype::kBf16; }

Key key_of(const Work& w) {
  const int type = framework_norm(w) ? 2 : is_half(w.dtype) ? 1 : 0;
  const int wider = w.family == Family::kSoftmax && type == 1 && !is_half(w.out_dtype) ? 1 : 0;
  const auto* pool = std::get_if<Pooling>(&w.kind);
  const auto* rows = std::get_if<Rows>(&w.kind);
  return {static_cast<int>(w.family),
          w.backward ? 1 : 0,
          type,
          wider,
          channels_last(w) ? 1 : 0,
          pool != nullptr                   ? 1 + static_cast<int>(pool->of)
          : rows != nullptr && rows->groups ? kGroupNorm
                                            : 0};
}

double log_of(std::int64_t v) { return std::log(static_cast<double>(std::max<std::int64_t>(v, 1))); }

Features features_of_images(const std::array<std::int64_t, 4>& input) {
  return {log_of(input[0]), log_of(input[1]), log_of(input[2] * input[3])};
}

Features features_of(const Work& w) {
  if (const auto* c = std::get_if<Convolution>(&w.kind)) {
    return {log_of(c->input[1]) + log_of(c->out_channels), log_of(c->input[2] * c->input[3]),
            2 * log_of(c->kernel_h * c->kernel_w) + 2 * log_of(c->stride)};
  }
  if (const auto* norm = std::get_if<BatchNorm>(&w.kind)) return features_of_images(norm->input);
  if (const auto* pool = std::get_if<Pooling>(&w.kind)) return features_of_images(pool->input);
  // How long a row is decides the kernel; how many there are only how full the device is.
  const auto* r = std::get_if<Rows>(&w.kind);
  return r == nullptr ? Features{} : Features{0.5 * log_of(r->rows), 1.5 * log_of(r->columns), 0};
}

// Batch norm over channels-first images. cuDNN keeps a channel on chip when it fits (about 150 KB) and reads it once; else
// one block walks each channel, so that few large channels leave most of the device idle. Constants from 164 measured layers:
// microseconds, ns per element of one channel, ps per element of the tensor, microseconds a block. On an H200; what a block
// does in sequence follows the clock, the rest the bandwidth.
double batch_norm_us(const Work& w, const BatchNorm& norm, const Device& d) {
  struct Law {
    double start, serial_ns, total_ps, block;
  };
  static constexpr Law kOnChip[2][2] = {{{1.1, .37, 4.0, 1.26}, {1.4, .19, 1.75, 1.25}},
                                        {{.5, .3, 6.3, 1.3}, {1, .3, 3.0, 1.2}}};
  static constexpr Law kWalk[2][2] = {{{1, .576, 4.0, 0}, {2, .735, 4.0, 0}}, {{3, 1.49, 5.6, 0}, {2, 1.465, 4.3, 0}}};
  const double channel = static_cast<double>(norm.channel_elements);
  const double elements = static_cast<double>(w.elements);
  const double size = static_cast<double>(bytes_of(w.dtype));
  const bool fits = channel * size * (w.backward ? 2 : 1) <= 150e3;
  const Law& law = (fits ? kOnChip : kWalk)[w.backward ? 1 : 0][is_half(w.dtype) ? 1 : 0];
  const double clock = d.clock_mhz > 0 ? 1980 / d.clock_mhz : 1;
  const double memory = 4320 / d.streaming_gbs();
  const double turns = std::ceil(static_cast<double>(norm.channels) / std::max(1, d.sm_count));
  double t = std::max(
      {channel * law.serial_ns * 1e-3 * clock + law.block, elements * law.total_ps * 1e-6 * memory, turns * law.block});
  if (!fits && elements * size < 15e6) t *= 0.6;  // in L2
  return law.start + t;
}

// What a kernel at full rate would take. Two microseconds: start, and a second pass over small data.
double ideal_us(const Work& w, const Device& d) {
  if (const auto* norm = std::get_if<BatchNorm>(&w.kind);
      norm != nullptr && !norm->channels_last && norm->channel_elements > 0 && !framework_norm(w)) {
    return batch_norm_us(w, *norm, d);
  }
  const double compute = is_conv(w) ? w.flops / (d.tflops_fp32 * 1e6) : 0;
  return 2.0 + std::max(compute, stream_us(w.bytes(), d));
}

constexpr std::size_t kLeaveNoneOut = static_cast<std::size_t>(-1);

double predict_share(const std::vector<Sample>& samples, const Features& at, std::size_t leave_out) {
  constexpr std::size_t kNearest = 4;
  std::array<std::pair<double, double>, kNearest> near;
  std::size_t n = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    // The same shape in the other half type says as much as the sample itself.
    if (i == leave_out || (leave_out != kLeaveNoneOut && samples[i].at == at)) continue;
    double distance = 0;
    for (std::size_t f = 0; f < at.size(); ++f) {
      distance += (samples[i].at[f] - at[f]) * (samples[i].at[f] - at[f]);
    }
    const std::pair<double, double> one{distance, samples[i].log_share};
    if (n < kNearest) {
      near[n++] = one;
      std::push_heap(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(n));
    } else if (one < near.front()) {
      std::pop_heap(near.begin(), near.end());
      near.back() = one;
      std::push_heap(near.begin(), near.end());
    }
  }
  double sum = 0;
  double weights = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double weight = 1 / (near[i].first + 0.01);
    sum += weight * near[i].second;
    weights += weight;
  }
  return weights > 0 ? sum / weights : 0;
}

// Root mean square error of the samples, each told by all of them or by the others alone.
double spread(const std::vector<Sample>& samples, bool leave_out) {
  double squares = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double error = predict_share(samples, samples[i].at, leave_out ? i : kLeaveNoneOut) - samples[i].log_share;
    squares += error * error;
  }
  return std::sqrt(squares / static_cast<double>(samples.size()));
}

// "rows=512;c=96" -> the value of `name`.
std::int64_t field(std::string_view shape, std::string_view name) {
  for (std::size_t at = 0; at < shape.size();) {
    const std::size_t end = std::min(shape.find(';', at), shape.size());
    const std::string_view item = shape.substr(at, end - at);
    if (item.starts_with(name) && item.size() > name.size() && item[name.size()] == '=') {
      std::int64_t value = 0;
      std::from_chars(item.data() + name.size() + 1, item.data() + item.size(), value);
      return value;
    }
    at = end + 1;
  }
  return 0;
}

// The work a row of the table describes.
Work conv_work_of(std::string_view kind, std::string_view layout, std::string_view shape) {
  Work w(kind == "fwd" ? Family::kConvForward : kind == "dgrad" ? Family::kConvDataGrad : Family::kConvWeightGrad);
  auto& c = std::get<Convolution>(w.kind);
  w.backward = kind != "fwd";
  c.channels_last = layout == "nhwc";
  c.input = {field(shape, "n"), field(shape, "c"), field(shape, "h"), field(shape, "w")};
  c.out_channels = field(shape, "k");
  c.kernel_h = field(shape, "r");
  c.kernel_w = field(shape, "s");
  c.stride = std::max<std::int64_t>(1, field(shape, "stride"));
  c.groups = std::max<std::int64_t>(1, field(shape, "groups"));
  c.out_h = (c.input[2] + 2 * field(shape, "pad") - c.kernel_h) / c.stride + 1;
  c.out_w = (c.input[3] + 2 * field(shape, "pad") - c.kernel_w) / c.stride + 1;
  refresh(w);
  return w;
}

// What of a row's name is no size: the family.
Family family_of(std::string_view kind) {
  if (kind.starts_with("ln_") || kind.starts_with("gn_")) return Family::kLayerNorm;
  if (kind.starts_with("softmax") || kind.starts_with("lsm_")) return Family::kSoftmax;
  if (kind.starts_with("bn_")) return Family::kBatchNorm;
  return kind.find("pool") != std::string_view::npos ? Family::kPooling : Family::kOther;
}

Work work_of(std::string_view kind, std::string_view dtype, std::string_view layout, std::string_view shape) {
  if (kind == "fwd" || kind == "dgrad" || kind == "wgrad") return conv_work_of(kind, layout, shape);
  Work w(family_of(kind));
  w.dtype = w.out_dtype = dtype == "fp16" ? Dtype::kFp16 : dtype == "bf16" ? Dtype::kBf16 : Dtype::kFp32;
  w.backward = kind.ends_with("_bwd");
  const double size = static_cast<double>(bytes_of(w.dtype));
  const std::array<std::int64_t, 4> images = {field(shape, "n"), field(shape, "c"), field(shape, "h"),
                                              field(shape, "w")};
  const std::int64_t image_elements = images[0] * images[1] * images[2] * images[3];
  const bool last = layout == "nhwc";
  if (auto* pool = std::get_if<Pooling>(&w.kind)) {
    const bool maximum = kind.starts_with("max");
    *pool = {images, maximum ? Pooling::Of::kMaximum : Pooling::Of::kAverage, last};
    w.elements = image_elements;
    const std::int64_t stride = std::max<std::int64_t>(1, field(shape, "s"));
    const double outputs = static_cast<double>(w.elements) / static_cast<double>(stride * stride);
    const double small = outputs * (size + (maximum ? 8 : 0));
    const double large = static_cast<double>(w.elements) * size;
    w.bytes_read = w.backward ? small : large;
    w.bytes_written = w.backward ? large : small;
    return w;
  }
  if (auto* norm = std::get_if<BatchNorm>(&w.kind)) {
    w.elements = image_elements;
    *norm = {images, images[1], images[1] > 0 ? image_elements / images[1] : 0, last};
  } else {
    const Rows rows{field(shape, "rows"), field(shape, "c"), kind.starts_with("gn_")};
    w.elements = rows.rows * rows.columns;
    w.kind = rows;
  }
  // Half in, float out: read once, as always, and written in fp32.
  if (kind == "softmax_fwd_up") w.out_dtype = Dtype::kFp32;
  w.bytes_read = static_cast<double>(w.elements) * size * (w.backward ? 2 : 1);
  w.bytes_written = static_cast<double>(w.elements) * static_cast<double>(bytes_of(w.out_dtype));
  return w;
}

const std::map<Key, Pool>& pools() {
  static const std::map<Key, Pool> kPools = [] {
    std::map<Key, Pool> all;
    for (const auto& [stem, text] : kernel_files()) {
      const Result<Device> device = find_device(stem);
      FORETRACE_CHECK(device.has_value());  // a table is named after the device it was measured on
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string_view line = text.substr(at, end - at);
        at = end + 1;
        if (line.empty() || line.front() == '#') continue;
        std::array<std::string_view, 5> cell;
        std::size_t begin = 0;
        for (std::string_view& c : cell) {
          const std::size_t comma = std::min(line.find(',', begin), line.size());
          c = line.substr(begin, comma - begin);
          begin = std::min(comma + 1, line.size());
        }
        double us = 0;
        std::from_chars(cell[4].data(), cell[4].data() + cell[4].size(), us);
        const Work w = work_of(cell[0], cell[1], cell[2], cell[3]);
        all[key_of(w)].samples.push_back({features_of(w), std::log(us / ideal_us(w, *device))});
      }
    }
    for (auto& [key, pool] : all) {
      // With a neighbour on each side a shape is closer to the table than a sample is without itself.
      pool.sigma = std::max(0.08, 0.7 * spread(pool.samples, true));
    }
    return all;
  }();
  return kPools;
}

}  // namespace

ModelledTime measured_model(const Work& w, const Device& d) {
  if (w.elements <= 0 || w.bytes() <= 0) return {};
  Key key = key_of(w);
  auto it = pools().find(key);
  if (it == pools().end() && key[3] != 0) {  // half in, float out: not measured in this direction
    key[3] = 0;
    it = pools().find(key);
  }
  if (it == pools().end() && key[4] != 0) {
    key[4] = 0;
    it = pools().find(key);
  }
  // A family without any measured kernel streams at half the rate, give or take a factor.
  if (it == pools().end()) return {ideal_us(w, d) / 0.5, 0.5};
  const double us = ideal_us(w, d) * std::exp(predict_share(it->second.samples, features_of(w), kLeaveNoneOut));
  double sigma = it->second.sigma;
  const auto* pool = std::get_if<Pooling>(&w.kind);
  // Averages come in forms (adaptive, with odd windows) that were not measured; short kernels have a spread of their own.
  if (pool != nullptr && pool->of == Pooling::Of::kAverage) sigma = std::max(sigma, 0.5);
  if (us < 12) sigma = std::max(sigma, 0.25);
  return {us, sigma};
}

std::vector<MeasuredPool> measured_pools() {
  std::vector<MeasuredPool> out;
  for (const auto& [key, pool] : pools()) {
    MeasuredPool p{std::string(to_string(static_cast<Family>(key[0]))), pool.samples.size(),
                   spread(pool.samples, false), spread(pool.samples, true)};
    if (key[1] != 0) p.name += " backward";
    p.name += key[2] == 0 ? " fp32" : key[2] == 2 ? " bf16" : key[3] != 0 ? " half to fp32" : " half";
    if (key[4] != 0) p.name += ", channels last";
    if (key[5] == kGroupNorm) p.name += ", of groups";
    if (key[5] == 1 + static_cast<int>(Pooling::Of::kMaximum)) p.name += ", max";
    if (key[5] == 1 + static_cast<int>(Pooling::Of::kAverage)) p.name += ", average";
    out.push_back(std::move(p));
  }
  return out;
}

}  // namespace foretrace::hardware
