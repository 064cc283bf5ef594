#include "hardware/cost_product.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "base/decimal.hpp"
#include "base/text.hpp"
#include "hardware/board_power.hpp"
#include "hardware/choice/chooser.hpp"

namespace foretrace::hardware {

namespace {

// Parts of a sum that are tried.
constexpr std::array<double, 9> kSplits = {1, 2, 3, 4, 6, 8, 12, 16, 32};

bool on_tensor_cores(Dtype dtype) {
  return dtype == Dtype::kFp16 || dtype == Dtype::kBf16 || dtype == Dtype::kTf32 || dtype == Dtype::kFp8;
}

// What the device really multiplies in: a type it lacks falls back as PyTorch does, FP8 to BF16, all others to FP32.
Dtype multiplied_in(Dtype dtype, const Device& d) {
  const bool bf16 = d.tflops_bf16 > 0;
  switch (dtype) {
    case Dtype::kFp8:
      return d.multiplies_fp8() ? Dtype::kFp8 : bf16 ? Dtype::kBf16 : Dtype::kFp32;
    case Dtype::kBf16:
      return bf16 ? Dtype::kBf16 : Dtype::kFp32;
    case Dtype::kFp16:
      return d.tflops_fp16 > 0 ? Dtype::kFp16 : Dtype::kFp32;
    case Dtype::kTf32:
      return d.tflops_tf32 > 0 ? Dtype::kTf32 : Dtype::kFp32;
    default:
      return Dtype::kFp32;
  }
}

constexpr double kNarrow = 128;  // FLOP per clock of an SM with 64 lanes, by definition two a lane

// How many operands an SM's arithmetic asks for, against what it can load. SMs of 128 lanes load no more in a clock than those of 64 and
// wait twice as long; tensor cores that are sold at half their rate, or less, hide the loading of their operands: on cards for games the
// largest products reach their rate (tools/published-products.csv: RTX 3090 76 TFLOP/s of 71, 4090 165 of 165, 5090 233 of 209).
double width_of(Dtype dtype, const Device& d) {
  if (!on_tensor_cores(dtype)) return d.flops_per_clock(dtype) / kNarrow;
  const double native = architecture_of(d).half_flops_per_clock * (dtype == Dtype::kTf32  ? 0.5
                                                                   : dtype == Dtype::kFp8 ? 2.0
                                                                                          : 1.0);
  // NVIDIA's data sheets give peaks at a clock below the highest: 0.83 of it on an A100, 0.89 on an H100, 0.96 on an RTX 4090.
  constexpr double kRated = 0.9;
  return native > 0 ? std::min(1.0, d.flops_per_clock(dtype) / (kRated * native)) : 1.0;
}

constexpr std::array<std::string_view, kProductKinds> kKindNames = {"half", "fp32", "fp32-batched", "conv", "tf32"};

using Field = double ProductWeights::*;
constexpr std::array<std::pair<std::string_view, Field>, 22> kFields = {{
    {"transform", &ProductWeights::transform},
    {"start", &ProductWeights::start},
    {"pad", &ProductWeights::pad},
    {"share", &ProductWeights::share},
    {"traffic", &ProductWeights::traffic},
    {"start_k", &ProductWeights::start_k},
    {"fill", &ProductWeights::fill},
    {"step", &ProductWeights::step},
    {"load", &ProductWeights::load},
    {"round", &ProductWeights::round},
    {"memory", &ProductWeights::memory},
    {"cache", &ProductWeights::cache},
    {"hit", &ProductWeights::hit},
    {"blend", &ProductWeights::blend},
    {"split", &ProductWeights::split},
    {"host", &ProductWeights::host},
    {"carry_other", &ProductWeights::carry_other},
    {"common_known", &ProductWeights::common_known},
    {"common_new", &ProductWeights::common_new},
    {"most_common", &ProductWeights::most_common},
    {"spread_known", &ProductWeights::spread_known},
    {"spread_new", &ProductWeights::spread_new},
}};

}  // namespace

bool set_parameter(ProductWeights& weights, std::string_view name, double value) {
  const auto* const found =
      std::find_if(kFields.begin(), kFields.end(), [&](const auto& f) { return f.first == name; });
  if (found == kFields.end()) return false;
  weights.*(found->second) = value;
  return true;
}

std::vector<std::pair<double, double>> parse_tiles(std::string_view text) {
  std::vector<std::pair<double, double>> tiles;
  for (const std::string_view one : split(text, ' ')) {
    const std::vector<std::string_view> sides = split(one, 'x');
    if (sides.size() != 2) return {};
    const std::optional<double> m = parse_double(sides[0]);
    const std::optional<double> n = parse_double(sides[1]);
    if (!m || !n || *m < 1 || *n < 1) return {};
    tiles.emplace_back(*m, *n);
  }
  return tiles;
}

std::string_view to_string(ProductKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

Result<TransferWeights> TransferWeights::parse(std::string_view csv, const std::string& origin, TransferWeights base,
                                               std::string_view device) {
  const std::string hint = "written by tools/train_transfer.py";
  TransferWeights weights = std::move(base);
  std::set<std::pair<std::string_view, std::string_view>> begun;
  for (CsvReader row(csv); row.next();) {
    const auto wrong = [&](std::string_view what) { return row.error(what, origin, hint); };
    const std::string_view kind = row["kind"], architecture = row["architecture"];
    if (std::find(std::begin(kKindNames), std::end(kKindNames), kind) == std::end(kKindNames)) {
      return wrong("an unknown kind of product");
    }
    ProductWeights& set = weights.sets_.at(kind, architecture, device);
    if (begun.emplace(kind, architecture).second) set = ProductWeights{};
    if (row["parameter"] == "tiles") {
      set.tiles = parse_tiles(row["value"]);
      if (set.tiles.empty()) return wrong("tiles are written 128x64, with blanks between them");
      continue;
    }
    const std::optional<double> value = row.number("value");
    if (!value) return wrong("a value is no number");
    if (constexpr std::string_view kCarryFrom = "carry_from "; row["parameter"].starts_with(kCarryFrom)) {
      set.carry_from.emplace_back(row["parameter"].substr(kCarryFrom.size()), *value);
      continue;
    }
    set_parameter(set, row["parameter"], *value);
  }
  for (const std::string_view kind : kKindNames) {
    if (kind == to_string(ProductKind::kTf32)) continue;
    const ProductWeights* any = weights.sets_.find(kind, Device{});
    if (any == nullptr || any->tiles.empty()) {
      return tl::unexpected<Error>(Error{ErrorCode::kUnreadable,
                                         fmt::format("no parameters of kind {} for any architecture", kind), origin,
                                         Error::kNoOffset, hint});
    }
  }
  return weights;
}

TransferWeights TransferWeights::read(const DataFiles& files) {
  TransferWeights all(files);
  // Files of many devices first: they hold what every kind needs.
  for (const bool own : {false, true}) {
    for (const DataFile& file : files.in("hardware/transfer")) {
      const std::string_view device = device_of(file, files);
      if (device.empty() == own) continue;
      Result<TransferWeights> parsed = parse(file.text, std::string(file.path), std::move(all), device);
      FORETRACE_CHECK(parsed.has_value());  // a test reads them
      all = std::move(*parsed);
    }
  }
  return all;
}

const TransferWeights& TransferWeights::shipped() {
  static const TransferWeights kShipped = read(DataFiles::shipped());
  return kShipped;
}

const ProductWeights& TransferWeights::of(ProductKind kind, const Device& d) const {
  const ProductWeights* found = sets_.find(to_string(kind), d);
  if (kind == ProductKind::kTf32 && (found == nullptr || !sets_.has("tf32", architecture_of(d).laws))) {
    found = sets_.find(to_string(ProductKind::kHalf), d);
  }
  FORETRACE_CHECK(found != nullptr);  // parse() wants "any" of every kind
  return *found;
}

bool TransferWeights::knows(ProductKind kind, const Device& d) const {
  return sets_.has(to_string(kind == ProductKind::kTf32 ? ProductKind::kHalf : kind), architecture_of(d).laws);
}

namespace {

double one_product_us(const Product& x, const ProductWeights& p, const Device& d) {
  const double clock = clock_of(d);
  const double peak = d.tflops(x.dtype) * p.share;
  // A board that holds more than its rated clock does so in every kernel.
  const double boost = std::max(1.0, clock_share(x.dtype, 0, d));
  const bool convolution = x.kind == ProductKind::kConv;  // in FP32 they reach half of what products do
  const double per_sm = d.flops_per_clock(x.dtype) * clock * p.share * boost;
  const double width = width_of(x.dtype, d);
  const bool tensor = on_tensor_cores(x.dtype);
  const double traffic = x.bytes > 0 ? x.bytes : x.element_bytes * x.batch * (x.m * x.n + x.m * x.k + x.k * x.n);
  const double kept = p.hit * std::clamp(1 - traffic / std::max(1.0, d.l2_mb * 1e6 * p.cache), 0.0, 1.0);
  const double memory = traffic * (1 - kept) / (d.streaming_gbs() * p.memory * 1e3);
  const double memory_power = std::pow(memory, p.blend);
  // What does not depend on the split, tile by tile.
  struct Tile {
    double area, wide, begin, whole, count, edges;
  };
  static constexpr std::size_t kMostTiles = 16;
  std::array<Tile, kMostTiles> tiles;
  std::size_t many = 0;
  double least_whole = INFINITY;
  for (const auto& [tm, tn] : p.tiles) {
    if (many == kMostTiles) break;
    const double edge = tm * tn / (tm + tn);
    const double loss = (edge + p.traffic) / edge;
    // Tensor cores below their full rate are busy while operands come; lanes wait for what they ask for.
    const double wide = tensor ? std::max(1.0, width * loss) : (edge + p.traffic * width) / edge;
    const double begin = p.start_k * (tensor ? width * loss : wide);  // never grows faster than the rate
    const double rows = p.pad * std::ceil(x.m / tm) + (1 - p.pad) * x.m / tm;
    const double columns = p.pad * std::ceil(x.n / tn) + (1 - p.pad) * x.n / tn;
    const double count = x.batch * rows * columns;
    const double reached = peak / wide;
    const double held = convolution ? clock_at_limit(x.dtype, reached, d) : clock_share(x.dtype, reached, d);
    const double whole = 2 * count * tm * tn * x.k / (reached * held * 1e6);
    least_whole = std::min(least_whole, whole);
    tiles[many++] = {2 * tm * tn, wide, begin, whole, count, std::min(tm, x.m) + std::min(tn, x.n)};
  }
  double best = INFINITY, least_busy = INFINITY;
  for (const double split : kSplits) {
    // Partial results go through L2 in fp32, about twice as fast as memory.
    const double partial = split > 1 ? p.split + split * x.batch * x.m * x.n * 4 / (d.streaming_gbs() * 2e3) : 0;
    // No larger split can be faster: most products end here, before the second.
    if (partial + std::max(least_whole, memory) >= best) break;
    const double steps = x.k / split;
    double busy = INFINITY;  // of the best tile
    for (std::size_t i = 0; i < many; ++i) {
      const Tile& tile = tiles[i];
      const double waves = tile.count * split / d.sm_count;
      const double turns = p.round * std::ceil(waves) + (1 - p.round) * std::max(waves, 1.0);
      const double loads = x.element_bytes * tile.edges * steps / (p.load * clock);
      const double turn =
          std::max({tile.area * (steps * tile.wide + tile.begin) / per_sm, p.step * steps / clock, loads}) +
          p.fill / clock;
      busy = std::min(busy, std::max(turns * turn, tile.whole));
    }
    // A split costs more than none: it must at least be faster.
    if (busy >= least_busy) continue;
    least_busy = busy;
    best = std::min(best, std::pow(std::pow(busy, p.blend) + memory_power, 1 / p.blend) + partial);
  }
  return p.start + best;
}

}  // namespace

double product_us(const Product& x, const ProductWeights& p, const Device& d) {
  const double direct = one_product_us(x, p, d);
  if (x.images <= 0) return direct;
  // F(2 x 2) in one kernel: 16 multiplications for 36. F(4 x 4) with its transforms through memory: 36 for 144.
  Product part;
  part.kind = x.kind;
  part.n = x.out_channels;
  part.k = x.channels;
  part.m = 16 * x.images * std::ceil(x.out_height / 2) * std::ceil(x.out_width / 2);
  const double fused = one_product_us(part, p, d);
  const double tiles = x.images * std::ceil(x.out_height / 4) * std::ceil(x.out_width / 4);
  part.batch = 36;
  part.m = tiles;
  const double moved = 4 * (72 * tiles * (x.channels + x.out_channels) +
                            x.images * (x.height * x.width * x.channels + x.out_height * x.out_width * x.out_channels));
  const double apart = one_product_us(part, p, d) + p.transform * moved / (d.streaming_gbs() * 1e3);
  return std::min({direct, fused, apart});
}

Product product_of(const Work& w, const Device& d) {
  Product x;
  x.dtype = multiplied_in(w.dtype, d);
  x.element_bytes = static_cast<double>(bytes_of(w.dtype));
  const bool tensor = x.dtype != Dtype::kFp32;
  const ProductKind on_tensor = x.dtype == Dtype::kTf32 ? ProductKind::kTf32 : ProductKind::kHalf;
  x.kind = tensor ? on_tensor : ProductKind::kFp32;
  if (const auto* g = std::get_if<work::Gemm>(&w.kind)) {
    x.kind = tensor ? on_tensor : g->batch > 1 ? ProductKind::kFp32Batched : ProductKind::kFp32;
    x.batch = static_cast<double>(g->batch);
    x.m = static_cast<double>(g->m), x.n = static_cast<double>(g->n), x.k = static_cast<double>(g->k);
    return x;
  }
  const auto* conv = std::get_if<work::Convolution>(&w.kind);
  if (conv == nullptr || conv->input[0] <= 0 || conv->groups <= 0) return x;
  const work::Convolution& c = *conv;
  x.kind = tensor ? on_tensor : ProductKind::kConv;
  const double groups = static_cast<double>(c.groups);
  const double taps = static_cast<double>(c.kernel_h * c.kernel_w);
  const double images = static_cast<double>(c.input[0]);
  const double in = static_cast<double>(c.input[1]) / groups;
  const double out = static_cast<double>(c.out_channels) / groups;
  const double pixels_in = images * static_cast<double>(c.input[2] * c.input[3]);
  const double pixels_out = images * static_cast<double>(c.out_h * c.out_w);
  x.batch = groups;
  if (x.kind == ProductKind::kConv && winograd_can_do(c) && w.family != Family::kConvWeightGrad) {
    const bool forward = w.family == Family::kConvForward;
    x.images = images;
    x.channels = forward ? in : out;
    x.out_channels = forward ? out : in;
    x.height = static_cast<double>(c.input[2]), x.width = static_cast<double>(c.input[3]);
    x.out_height = static_cast<double>(c.out_h), x.out_width = static_cast<double>(c.out_w);
    if (!forward) {
      std::swap(x.height, x.out_height);
      std::swap(x.width, x.out_width);
    }
  }
  if (w.family == Family::kConvForward) {
    x.m = pixels_out, x.n = out, x.k = in * taps;
  } else if (w.family == Family::kConvDataGrad) {
    const double stride = std::max(1.0, static_cast<double>(c.stride * c.stride));
    x.m = pixels_in, x.n = in, x.k = std::max(1.0, out * taps / stride);
  } else {
    x.m = out, x.n = in * taps, x.k = pixels_out;
  }
  return x;
}

ProductKind fitted_kind(const Product& x) {
  return x.kind == ProductKind::kConv && x.images <= 0 ? ProductKind::kFp32 : x.kind;
}

// BF16 on a GPU without it is converted by the kernel, and slower than FP32: 1.37 times on a V100S, 1.7 and 1.95 on T4s, 1.8 on a P4 and an RTX 2080, 1.9
// on a P40 and an M40: the median of those seven, published by whom tools/published-products.csv comes from. FP16 without tensor cores runs as fast as
// FP32 there (P4, P40).
constexpr double kConvertedBf16 = 1.8;

double best_product_us(const Work& w, const TransferWeights& weights, const Device& d) {
  const Product own = product_of(w, d);
  if (own.m <= 0 || own.n <= 0 || own.k <= 0) return 0;
  const double us = product_us(own, weights.of(fitted_kind(own), d), d);
  if (own.dtype == Dtype::kFp32) return w.dtype == Dtype::kBf16 ? us * kConvertedBf16 : us;
  const Product plain = product_of(with_dtype(w, Dtype::kFp32), d);
  return std::min(us, product_us(plain, weights.of(fitted_kind(plain), d), d));
}

bool same_silicon(const Device& a, const Device& b) {
  return a.vendor == b.vendor && a.compute_major == b.compute_major && a.compute_minor == b.compute_minor;
}

}  // namespace foretrace::hardware
