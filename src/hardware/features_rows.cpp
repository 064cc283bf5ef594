// Laws and features of norms, softmax, losses, sums, sorting, prefix sums, Fourier transforms and pooling.

#include <bit>

#include "foretrace/work/work.hpp"
#include "hardware/cost_norm.hpp"
#include "hardware/features_builder.hpp"
#include "hardware/launch_shapes.hpp"
#include "hardware/tables.hpp"

namespace foretrace::hardware {

namespace {

// Of a share that may be far below 1.
double log_share(double v) { return std::log(std::max(v, 1e-3)); }

double streamed(const Work& w, const Device& d) { return kKernelUs + stream_us(w.bytes(), d); }

// What is lost where rows are padded to a power of two.
double padding(std::int64_t columns) {
  const auto n = static_cast<std::uint64_t>(std::clamp<std::int64_t>(columns, 1, std::int64_t{1} << 40));
  return std::log(as_double(static_cast<std::int64_t>(std::bit_ceil(n))) / as_double(static_cast<std::int64_t>(n)));
}

Builder& sizes(Builder& at, const Rows& r) {
  return at.feature(log_of(r.rows))
      .feature(log_of(r.columns))
      .feature(log_of(as_double(r.rows) * as_double(r.columns)));
}

// A warp for a row or two where they are short, a block for a longer one, which keeps it in registers or shared memory or reads
// it again: PyTorch's limits (SoftMax.cu).
KernelFeatures softmax(Builder at, const Work& w, const Rows& r, const Device& d) {
  const std::int64_t shortest = w.backward ? 1024 : 2048;
  const bool warp = r.columns <= shortest;
  const bool kept = as_double(r.columns) * as_double(bytes_of(w.dtype)) <= 48e3;
  const double blocks = warp ? as_double(r.rows) / (r.columns <= 128 ? 8 : 4) : as_double(r.rows);
  const double resident = (warp ? 16.0 : 2.0) * std::max(1, d.sm_count);
  return sizes(at, r)
      .feature(misalignment(r.columns))
      .feature(warp   ? 0
               : kept ? 1
                      : 2)
      .feature(warp ? padding(r.columns) : 0)
      .feature(std::max(0.0, std::log(std::max(blocks, 1.0) / resident)))
      .feature(r.operation == Rows::Operation::kLog ? 1 : 0)
      .law(streamed(w, d));
}

// Forward by groups; the gradients by planes of a channel, then over samples, by another kernel from 129 of them on (group_norm_kernel.cu).
KernelFeatures group_norm(Builder at, const Work& w, const Rows& r, const Device& d) {
  constexpr std::int64_t kFewSamples = 128;
  const std::int64_t samples = std::max<std::int64_t>(1, r.samples);
  const std::int64_t channels = std::max<std::int64_t>(1, r.channels);
  const double plane = as_double(w.elements) / as_double(samples) / as_double(channels);
  return sizes(at, r)
      .feature(misalignment(r.columns))
      .feature(log_of(samples))
      .feature(log_of(channels))
      .feature(log_of(plane))
      .feature(samples > kFewSamples ? 1 : 0)
      .law(streamed(w, d));
}

// An SM that holds fewer threads issues as many instructions in a clock: each thread's turn comes sooner. The clocks of a thread's step were measured
// with as many as an SM of an H200 holds.
Device as_full(Device d) {
  d.threads_per_sm = 2048;
  d.shared_kb_per_sm = 228;
  return d;
}

// Threads that add up many values in turn, blocks that combine their results in memory, and how often both fill the device.
KernelFeatures reduction(Builder at, const Work& w, const Rows& r, const Device& d, const Clocks& c) {
  const std::int64_t stretches = w.access == Access::kTransposed ? r.samples : 0;  // layouts change, samples stay
  const std::int64_t stretch = stretches > 0 ? r.columns / stretches : 0;
  const ReductionShape s = reduction_shape(r.rows, r.columns, w.access != Access::kStrided, d, stretch);
  const double filled = as_double(s.blocks) / as_double(s.resident);
  const double turns = clocks_us(c.summed * as_double(s.values) * as_double(s.vector) * std::max(1.0, filled), d);
  return at.feature(log_of(s.values))
      .feature(log_share(filled))
      .feature(std::max(0.0, std::log(filled)))
      .feature(log_of(s.parts))
      .feature(log_of(s.lanes))
      .feature(log_of(w.elements))
      .feature(s.parts > 1 ? 1 : 0)
      .feature(log_of(s.vector))
      .feature(log_of(stretches))
      .feature(misalignment(stretch))
      .law_of(kKernelUs + (s.parts > 1 ? clocks_us(c.meeting, d) : 0), stream_us(w.bytes(), d), turns);
}

KernelFeatures sort(Builder at, const Work& w, const Rows& r, const Device& d) {
  // Up to a warp by comparing, up to 4,096 in one block, more by passes over memory (Sort.cu).
  return sizes(at, r)
      .feature(r.columns <= 32     ? 0
               : r.columns <= 128  ? 1
               : r.columns <= 4096 ? 2
                                   : 3)
      .feature(padding(r.columns))
      .feature(std::min(3.0, log_share(as_double(r.rows) / std::max(1, d.sm_count))))
      .feature(r.rows == 1 ? 1 : 0)
      .law(streamed(w, d));
}

KernelFeatures topk(Builder at, const Work& w, const Rows& r, const Device& d) {
  constexpr std::int64_t kSorted = 4096;  // of which the largest are put in order in one block
  return sizes(at, r)
      .feature(log_of(r.kept))
      .feature(many_blocks_topk(r.rows, r.columns) ? 1 : 0)
      .feature(std::log(std::ceil(as_double(r.columns) / 1024) * 1024 / as_double(r.columns)))
      .feature(log_of(as_double(r.rows) * as_double(r.kept)))
      .feature(r.columns > kSorted ? 1 : 0)
      .law(streamed(w, d));
}

// A stretch of a row costs its threads the depth of a tree, twice.
KernelFeatures scan(Builder at, const Work& w, const Rows& r, const Device& d, const Clocks& c) {
  const ScanShape s = scan_shape(r.rows, r.columns, d);
  const double filled = as_double(s.blocks) / as_double(s.resident);
  const double turns = clocks_us(
      as_double(s.steps) * (c.scan_level * std::log2(as_double(s.lanes)) + c.scan) * std::max(1.0, filled), d);
  return at.feature(log_of(s.lanes))
      .feature(log_of(s.steps))
      .feature(log_share(filled))
      .feature(std::max(0.0, std::log(filled)))
      .feature(r.rows == 1 ? 1 : 0)
      .feature(r.columns <= 32 ? 1 : 0)
      .law_of(kKernelUs, stream_us(w.bytes(), d), turns);
}

// Lengths that are products of small primes have kernels of their own; others are made longer (Bluestein); long ones go over memory
// more than once.
KernelFeatures transform(Builder at, const Work& w, const Rows& r, const Device& d) {
  std::int64_t left = r.columns;
  for (const std::int64_t prime : {2, 3, 5, 7}) {
    while (left > 1 && left % prime == 0) left /= prime;
  }
  const bool power = std::has_single_bit(static_cast<std::uint64_t>(r.columns));
  return sizes(at, r)
      .feature(power ? 0 : 1)
      .feature(left == 1 ? 0 : 1)
      .feature(r.columns > 4096 ? 1 : 0)
      .feature(log_of(w.bytes() / as_double(std::max<std::int64_t>(1, w.elements))))
      .law(streamed(w, d));
}

}  // namespace

std::optional<KernelFeatures> features(const Work& w, const BatchNorm& b, const Device& d, const Tables& t) {
  if (w.elements <= 0 || w.bytes() <= 0 || b.input[0] <= 0) return std::nullopt;
  // cuDNN trains images in fp32 and fp16; in bf16, and vectors in any type, the framework's own kernels do, which take single
  // pixels as channels innermost.
  const double pixels = as_double(b.input[2]) * as_double(b.input[3]);
  const bool vectors = b.channels_last && pixels == 1;
  const Dtype kernels = vectors ? Dtype::kBf16 : w.dtype == Dtype::kTf32 ? Dtype::kFp32 : w.dtype;
  const bool last = b.channels_last || (pixels == 1 && kernels == Dtype::kBf16);
  std::string category = "batch_norm";
  // Images of one pixel cost cuDNN up to a hundred times what their bytes do.
  category.append(pass_name(w)).append(type_of(kernels)).append(last ? " nhwc" : pixels == 1 ? " pixel" : " nchw");
  const double channel = as_double(b.input[0]) * pixels;
  // A channel that fits on chip (about 150 KB) is read once.
  const double kept = channel * as_double(bytes_of(w.dtype)) * (w.backward ? 2 : 1) / 150e3;
  const double by_channel = channel_norm_us(w, t.laws(), d);
  // Those see rows of channels, whichever dimensions they come from.
  const bool rows = last && kernels == Dtype::kBf16;
  return Builder(std::move(category))
      .feature(rows ? 0 : log_of(b.input[0]))
      .feature(log_of(b.input[1]))
      .feature(rows ? 0 : log_of(pixels))
      .feature(log_of(channel))
      .feature(kept <= 1 ? 0 : 1)
      .feature(std::log(std::ceil(as_double(b.input[1]) / std::max(1, d.sm_count))))
      .feature(rows ? misalignment(b.input[1]) : misalignment(b.input[2] * b.input[3]))
      .feature(log_of(as_double(w.elements)))
      .law(by_channel > 0 ? by_channel : streamed(w, d));
}

std::optional<KernelFeatures> features(const Work& w, const Pooling& p, const Device& d, const Clocks& c) {
  static constexpr std::string_view kNames[] = {"max_pool", "avg_pool", "adaptive_avg_pool", "nearest", "bilinear",
                                                "bicubic",  ""};
  const std::string_view name = kNames[static_cast<std::size_t>(p.operation)];
  if (name.empty() || p.input[0] <= 0 || w.bytes() <= 0) return std::nullopt;
  std::string category(name);
  category.append(pass_name(w)).append(width_of(w)).append(p.channels_last ? " nhwc" : " nchw");
  const double planes = as_double(p.input[0]) * as_double(p.input[1]);
  const double inputs = planes * as_double(p.input[2]) * as_double(p.input[3]);
  const double outputs = std::max(as_double(p.outputs), 1.0);
  const double plane = outputs / std::max(planes, 1.0);
  Builder at(std::move(category));
  at.feature(log_of(p.input[0]))
      .feature(log_of(p.input[1]))
      .feature(log_of(plane))
      .feature(std::log(std::max(inputs, 1.0) / outputs))
      .feature(log_of(p.window))
      .feature(log_of(planes))
      .feature(log_of(outputs))
      .feature(log_of(inputs))
      .feature(misalignment(p.channels_last ? p.input[1] : p.input[3]))
      // Few channels are interpolated as planes, wherever they are (UpSampleBilinear2d.cu).
      .feature(p.channels_last && p.input[1] < 16 ? 1 : 0)
      .feature(std::max(0.0, std::log(outputs / (2048.0 * std::max(1, d.sm_count)))));
  const bool adaptive = p.operation == Pooling::Operation::kAdaptive;
  double turns = 0;
  if (p.channels_last && (adaptive || p.operation == Pooling::Operation::kMaximum)) {
    // Threads go over their channels, pixels and windows in turn, in shared memory.
    const double edge = std::sqrt(std::max(plane, 1.0));
    const double stride = std::sqrt(std::max(1.0, inputs / outputs));
    const double across = w.backward ? as_double(p.input[3]) : std::round(edge);
    const double down = w.backward ? as_double(p.input[2]) : std::round(plane / std::max(1.0, std::round(edge)));
    const std::int64_t shared = w.backward ? 4 : 4 + bytes_of(w.dtype);
    const ChannelsLastShape s =
        channels_last_shape(p.input[0], p.input[1], static_cast<std::int64_t>(std::min(down, 1e9)),
                            static_cast<std::int64_t>(std::min(across, 1e9)), shared, as_full(d));
    const double reach = std::ceil(std::sqrt(as_double(p.window)) / std::max(1.0, std::round(stride)));
    const double window = w.backward ? reach * reach : as_double(p.window);
    const double each = as_double(s.channels) * as_double(s.pixels);
    const double look = !adaptive ? c.maximum : w.backward ? 0 : c.mean;
    turns = clocks_us(look * each * window * std::max(1.0, s.waves), d);
    at.feature(log_of(each))
        .feature(log_share(s.waves))
        .feature(std::max(0.0, std::log(s.waves)))
        .feature(log_of(s.threads));
  } else if (adaptive && !w.backward) {
    // A block for each plane, eight on an SM, a thread for each output.
    const double waves = planes / (8.0 * std::max(1, d.sm_count));
    turns = clocks_us((c.plane + c.in_window * as_double(p.window)) * std::max(1.0, waves), d);
    at.feature(std::max(0.0, std::log(waves)));
  }
  return at.law_of(kKernelUs, stream_us(w.bytes(), d), turns);
}

std::optional<KernelFeatures> features(const Work& w, const Rows& r, const Device& d, const Clocks& c) {
  if (r.rows <= 0 || r.columns <= 0 || w.bytes() <= 0) return std::nullopt;
  const auto of_category = [&](std::string_view name, std::string_view pass) {
    return Builder(std::string(name).append(pass).append(width_of(w)));
  };
  switch (r.operation) {
    case Rows::Operation::kSort:
      return sort(of_category("sort", " fwd "), w, r, d);
    case Rows::Operation::kTopK:
      return topk(of_category("topk", " fwd "), w, r, d);
    case Rows::Operation::kScan:
      return scan(of_category("scan", " fwd "), w, r, d, c);
    case Rows::Operation::kTransform:
      return transform(of_category("transform", " fwd "), w, r, d);
    case Rows::Operation::kDefault:
    case Rows::Operation::kLog:
    case Rows::Operation::kRms:
      break;
  }
  const bool wider = w.family == Family::kSoftmax && is_half(w.dtype) && !is_half(w.out_dtype) && !w.backward;
  if (w.family == Family::kSoftmax) return softmax(of_category("softmax", wider ? " up " : pass_name(w)), w, r, d);
  if (w.family == Family::kLayerNorm && r.groups) return group_norm(of_category("group_norm", pass_name(w)), w, r, d);
  if (w.family == Family::kReduction) {
    const std::string_view name = w.access == Access::kTransposed   ? "sum_planes"
                                  : w.access == Access::kContiguous ? "sum_rows"
                                                                    : "sum_columns";
    return reduction(of_category(name, " fwd "), w, r, d, c);
  }
  // Of a loss one element of a row is looked at, or all of them.
  const bool one = w.bytes_read < 2 * as_double(w.elements) * as_double(bytes_of(w.dtype));
  if (w.family != Family::kLayerNorm && w.family != Family::kLoss) return std::nullopt;
  const std::string_view norm = r.operation == Rows::Operation::kRms ? "rms_norm" : "layer_norm";
  Builder at = of_category(w.family == Family::kLayerNorm ? norm : one ? "nll_loss" : "mse_loss", pass_name(w));
  return sizes(at, r).feature(misalignment(r.columns)).law(streamed(w, d));
}

}  // namespace foretrace::hardware
