#include "hardware/law_conv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "base/data_files.hpp"
#include "base/decimal.hpp"
#include "base/text.hpp"
#include "hardware/cost_models.hpp"
#include "hardware/cost_streaming.hpp"
#include "hardware/layout_changes.hpp"
#include "hardware/measured.hpp"

namespace foretrace::hardware {

namespace {

using Field = double ConvolutionWeights::*;
constexpr std::array<std::pair<std::string_view, Field>, 22> kFields = {{
    {"start", &ConvolutionWeights::start},     {"pad", &ConvolutionWeights::pad},
    {"share", &ConvolutionWeights::share},     {"traffic", &ConvolutionWeights::traffic},
    {"start_k", &ConvolutionWeights::start_k}, {"fill", &ConvolutionWeights::fill},
    {"step", &ConvolutionWeights::step},       {"load", &ConvolutionWeights::load},
    {"round", &ConvolutionWeights::round},     {"memory", &ConvolutionWeights::memory},
    {"cache", &ConvolutionWeights::cache},     {"hit", &ConvolutionWeights::hit},
    {"blend", &ConvolutionWeights::blend},     {"split", &ConvolutionWeights::split},
    {"energy", &ConvolutionWeights::energy},   {"transform", &ConvolutionWeights::transform},
    {"copy", &ConvolutionWeights::copy},       {"copy_start", &ConvolutionWeights::copy_start},
    {"odd", &ConvolutionWeights::odd},         {"loop", &ConvolutionWeights::loop},
    {"least_n", &ConvolutionWeights::least_n}, {"least_k", &ConvolutionWeights::least_k},
}};

}  // namespace

ConvolutionSets parse_convolutions(std::string_view csv) {
  ConvolutionSets sets;
  std::vector<std::string_view> header;
  for (const std::string_view line : split(csv, '\n')) {
    if (line.empty() || line.front() == '#') continue;
    const std::vector<std::string_view> cells = csv_fields(line);
    if (header.empty()) {
      header = cells;
      continue;
    }
    ConvolutionWeights& set = sets[std::string(cells.front())];
    for (std::size_t i = 1; i < std::min(cells.size(), header.size()); ++i) {
      if (header[i] == "tiles") set.tiles = parse_tiles(cells[i]);
      const auto* const field =
          std::find_if(kFields.begin(), kFields.end(), [&](const auto& f) { return f.first == header[i]; });
      if (field != kFields.end()) set.*(field->second) = parse_double(cells[i]).value_or(0);
    }
  }
  return sets;
}

namespace {

const ConvolutionSets& shipped() {
  static const ConvolutionSets kSets = parse_convolutions(data_files_in("hardware/convolutions").front().text);
  return kSets;
}

std::string_view filter_of(const Convolution& c) {
  if (c.groups > 1) return c.depthwise() ? "depthwise" : "grouped";
  return c.kernel_h * c.kernel_w == 1 && c.stride == 1 ? "pointwise" : "dense";
}

// What the sets are told apart by, as an index: 4 kinds of filter x 3 passes x 3 types x 2 layouts.
std::size_t index_of(const Work& w, const Convolution& c) {
  const std::string_view filter = filter_of(c);
  const std::size_t kind = filter == "pointwise" ? 0 : filter == "dense" ? 1 : filter == "grouped" ? 2 : 3;
  const std::size_t pass = w.family == Family::kConvForward ? 0 : w.family == Family::kConvDataGrad ? 1 : 2;
  const std::size_t type = is_half(w.dtype) ? 2 : w.dtype == Dtype::kTf32 ? 1 : 0;
  return ((kind * 3 + pass) * 3 + type) * 2 + (c.channels_last ? 1 : 0);
}
constexpr std::size_t kSets = 72;

const std::array<std::string, kSets>& names() {
  static const std::array<std::string, kSets> kNames = [] {
    std::array<std::string, kSets> all;
    std::size_t i = 0;
    for (const char* kind : {"pointwise", "dense", "grouped", "depthwise"}) {
      for (const char* pass : {"fwd", "dgrad", "wgrad"}) {
        for (const char* type : {"fp32", "tf32", "half"}) {
          for (const char* layout : {"nchw", "nhwc"}) all[i++] = fmt::format("{} {} {} {}", kind, pass, type, layout);
        }
      }
    }
    return all;
  }();
  return kNames;
}

const ConvolutionWeights* weights_of(const Work& w, const Convolution& c) {
  static const std::array<const ConvolutionWeights*, kSets> kByIndex = [] {
    std::array<const ConvolutionWeights*, kSets> all{};
    for (std::size_t i = 0; i < kSets; ++i) {
      const auto it = shipped().find(names()[i]);
      all[i] = it == shipped().end() || it->second.tiles.empty() ? nullptr : &it->second;
    }
    return all;
  }();
  return kByIndex[index_of(w, c)];
}

double filled_up(double channels, double to) { return std::ceil(channels / to) * to; }

double law_us(const Work& w, const Convolution& c, const ConvolutionWeights& p, const Device& d) {
  const bool data = w.family == Family::kConvDataGrad;
  const bool filter = w.family == Family::kConvWeightGrad;
  const bool tensor = w.dtype != Dtype::kFp32;
  const double groups = static_cast<double>(std::max<std::int64_t>(1, c.groups));
  const double size = static_cast<double>(bytes_of(w.dtype));
  const double channels = static_cast<double>(c.input[1]), out_channels = static_cast<double>(c.out_channels);
  const double taps = static_cast<double>(c.kernel_h) * static_cast<double>(c.kernel_w);
  const double samples = static_cast<double>(c.input[0]);
  const double inputs = samples * static_cast<double>(c.input[2]) * static_cast<double>(c.input[3]);
  const double outputs = samples * static_cast<double>(c.out_h) * static_cast<double>(c.out_w);
  const double read = inputs * channels * size, written = outputs * out_channels * size;
  const double bytes = read + written + out_channels * channels / groups * taps * size;
  double in = channels / groups, out = out_channels / groups;
  double beside = 0;
  if (tensor) {
    // What a row of channels lacks to an access of 16 bytes is filled up, by a copy of the tensor.
    const double together = size <= 2 ? 8 : 4;
    const double odd =
        (std::fmod(channels, together) != 0 ? read : 0) + (std::fmod(out_channels, together) != 0 ? written : 0);
    in *= filled_up(channels, together) / channels;
    out *= filled_up(out_channels, together) / out_channels;
    if (odd > 0) beside += p.copy_start + p.odd * stream_us(2 * odd, d);
  }
  if (c.groups > 1) {
    in = std::max(in, p.least_k);
    out = std::max(out, p.least_n);
    beside += p.loop * groups;
  }
  if (!layout_changes(w).empty()) beside += 3 * p.copy_start + p.copy * stream_us(2 * bytes, d);
  const double skipped =
      std::pow(static_cast<double>(c.stride), static_cast<double>(std::clamp<std::int64_t>(c.dimensions, 1, 3)));
  Product x;
  x.kind = tensor ? ProductKind::kHalf : ProductKind::kFp32;
  x.dtype = w.dtype;
  x.element_bytes = size;
  x.bytes = bytes;
  x.batch = groups;
  x.m = filter ? out : data ? inputs : outputs;
  x.n = filter ? in * taps : data ? in : out;
  x.k = filter ? outputs : data ? std::max(1.0, out * taps / skipped) : in * taps;
  double us = product_us(x, p, d);
  const bool winograd = !tensor && c.groups <= 1 && c.dimensions == 2 && c.kernel_h == 3 && c.kernel_w == 3 &&
                        c.stride == 1 && c.dilation == 1;
  if (winograd) {
    // F(4 x 4, 3 x 3): 36 products over a sixteenth of the pixels, their operands written and read on the way.
    const double tiles = outputs / 16;
    x.batch = 36;
    x.m = filter ? out : tiles;
    x.n = filter || data ? in : out;
    x.k = filter ? tiles : data ? out : in;
    us = std::min(us, product_us(x, p, d) + p.transform * stream_us(size * 72 * tiles * (channels + out_channels), d));
  }
  return us + beside;
}

const Convolution* known_sizes(const Work& w) {
  const auto* c = std::get_if<Convolution>(&w.kind);
  const bool known = c != nullptr && c->input[0] > 0 && c->input[1] > 0 && c->input[2] > 0 && c->input[3] > 0 &&
                     c->out_channels > 0 && c->out_h > 0 && c->out_w > 0 && c->kernel_h > 0 && c->kernel_w > 0;
  return known ? c : nullptr;
}

}  // namespace

double convolution_as_measured_us(const Work& w, const Device& d) {
  const Convolution* c = known_sizes(w);
  const ConvolutionWeights* p = c == nullptr ? nullptr : weights_of(w, *c);
  return p == nullptr || d.sm_count <= 0 ? 0 : law_us(w, *c, *p, d);
}

double convolution_us(const Work& w, const TransferWeights& products, const Device& d) {
  const Device& measured = measured_device();
  if (is_depthwise(w) || same_silicon(d, measured)) return convolution_as_measured_us(w, d);
  const double there = best_product_us(w, products, d);
  const double here = best_product_us(w, products, measured);
  if (!(here > 0) || !(there > 0)) return 0;
  // Of 3 x 3 filters with stride 1 in strict fp32 the products' parameters were fitted to convolutions.
  if (fitted_kind(product_of(w, d)) == ProductKind::kConv) return there;
  return there * std::exp(beyond_a_generation(std::log(convolution_as_measured_us(w, measured) / here)));
}

double convolution_us(const Work& w, const ConvolutionWeights& weights, const Device& d) {
  const Convolution* c = known_sizes(w);
  return c == nullptr ? 0 : law_us(w, *c, weights, d);
}

ModelledTime when_tried(const ModelledTime& told, const Work& w, const Device& d) {
  const auto* c = std::get_if<Convolution>(&w.kind);
  const bool forward = w.family == Family::kConvForward;
  if (c == nullptr || !c->tuned || c->groups <= 1 || c->depthwise() || c->channels_last) return told;
  // Where the direct kernel was measured (tools/fit_laws.py).
  const double taps = static_cast<double>(c->kernel_h) * static_cast<double>(c->kernel_w);
  if (c->stride > 1 || c->dilation > 1 || taps <= 1 || !(forward || w.family == Family::kConvDataGrad)) return told;
  const StreamingWeights* p = Laws::shipped().streaming(forward ? "direct fwd" : "direct dgrad", d);
  const StreamingWeights* both = Laws::shipped().streaming("direct", d);
  if (p == nullptr || both == nullptr || !(told.us > 0) || !(p->alone > 0) || d.clock_mhz <= 0) return told;
  const double depth =
      static_cast<double>(forward ? c->input[1] : c->out_channels) / static_cast<double>(c->groups) * taps;
  const double us = direct_convolution_us(w.flops / 2, depth, *p, d);
  return told.us > both->beside * us ? ModelledTime{us, p->spread} : told;
}

}  // namespace foretrace::hardware
