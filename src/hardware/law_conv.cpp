#include "hardware/law_conv.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "base/decimal.hpp"
#include "base/text.hpp"
#include "hardware/choice/chooser.hpp"
#include "hardware/cost_models.hpp"
#include "hardware/cost_streaming.hpp"
#include "hardware/measured.hpp"
#include "hardware/tables.hpp"

namespace foretrace::hardware {

namespace {

// Those that a product does not have.
constexpr std::pair<std::string_view, double ConvolutionWeights::*> kFields[] = {
    {"copy", &ConvolutionWeights::copy},       {"copy_start", &ConvolutionWeights::copy_start},
    {"odd", &ConvolutionWeights::odd},         {"loop", &ConvolutionWeights::loop},
    {"least_n", &ConvolutionWeights::least_n}, {"least_k", &ConvolutionWeights::least_k}};

}  // namespace

ConvolutionSets parse_convolutions(std::string_view csv) {
  ConvolutionSets sets;
  for (CsvReader row(csv); row.next();) {
    ConvolutionWeights& set = sets[std::string(row["set"])];
    set.tiles = parse_tiles(row["tiles"]);
    for (const std::string_view name : row.columns()) set_parameter(set, name, row.number(name).value_or(0));
    for (const auto& [name, field] : kFields) set.*field = row.number(name).value_or(0);
  }
  return sets;
}

namespace {

std::string_view filter_of(const Convolution& c) {
  if (c.groups > 1) return c.depthwise() ? "depthwise" : "grouped";
  return c.kernel_h * c.kernel_w == 1 && c.stride == 1 ? "pointwise" : "dense";
}

// The set of a convolution: filter, pass, element type and layout. Its name is put together without allocating: every law asks.
std::string_view set_name(const Work& w, const Convolution& c, std::array<char, 40>& buffer) {
  char* end = buffer.data();
  const auto add = [&](std::string_view word) { end = std::copy(word.begin(), word.end(), end); };
  add(filter_of(c));
  add(w.family == Family::kConvForward ? " fwd" : w.family == Family::kConvDataGrad ? " dgrad" : " wgrad");
  add(is_half(w.dtype) ? " half" : w.dtype == Dtype::kTf32 ? " tf32" : " fp32");
  add(c.channels_last ? " nhwc" : " nchw");
  return {buffer.data(), static_cast<std::size_t>(end - buffer.data())};
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
  double extra_us = 0;
  if (tensor) {
    // What a row of channels lacks to an access of 16 bytes is filled up, by a copy of the tensor.
    const double together = size <= 2 ? 8 : 4;
    const double odd =
        (std::fmod(channels, together) != 0 ? read : 0) + (std::fmod(out_channels, together) != 0 ? written : 0);
    in *= filled_up(channels, together) / channels;
    out *= filled_up(out_channels, together) / out_channels;
    if (odd > 0) extra_us += p.copy_start + p.odd * stream_us(2 * odd, d);
  }
  if (c.groups > 1) {
    in = std::max(in, p.least_k);
    out = std::max(out, p.least_n);
    extra_us += p.loop * groups;
  }
  if (!layout_changes(w).empty()) extra_us += 3 * p.copy_start + p.copy * stream_us(2 * bytes, d);
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
  if (!tensor && winograd_can_do(c)) {
    // F(4 x 4, 3 x 3): 36 products over a sixteenth of the pixels, their operands written and read in between.
    const double tiles = outputs / 16;
    x.batch = 36;
    x.m = filter ? out : tiles;
    x.n = filter || data ? in : out;
    x.k = filter ? tiles : data ? out : in;
    us = std::min(us, product_us(x, p, d) + p.transform * stream_us(size * 72 * tiles * (channels + out_channels), d));
  }
  return us + extra_us;
}

const Convolution* known_sizes(const Work& w) {
  const auto* c = std::get_if<Convolution>(&w.kind);
  const bool known = c != nullptr && c->input[0] > 0 && c->input[1] > 0 && c->input[2] > 0 && c->input[3] > 0 &&
                     c->out_channels > 0 && c->out_h > 0 && c->out_w > 0 && c->kernel_h > 0 && c->kernel_w > 0;
  return known ? c : nullptr;
}

}  // namespace

double convolution_us(const Work& w, const ConvolutionWeights& weights, const Device& d) {
  const Convolution* c = known_sizes(w);
  return c == nullptr || d.sm_count <= 0 ? 0 : law_us(w, *c, weights, d);
}

double convolution_as_measured_us(const Work& w, const Tables& tables, const Device& d) {
  const auto* c = std::get_if<Convolution>(&w.kind);
  if (c == nullptr) return 0;
  const ConvolutionSets& sets = tables.of(d).convolutions;
  std::array<char, 40> buffer;
  const auto found = sets.find(set_name(w, *c, buffer));
  return found == sets.end() || found->second.tiles.empty() ? 0 : convolution_us(w, found->second, d);
}

double convolution_us(const Work& w, const Tables& tables, const Device& d) {
  const bool measured = is_depthwise(w) || same_silicon(d, tables.of(d).convolutions_on);
  return measured ? convolution_as_measured_us(w, tables, d) : best_product_us(w, tables.products(), d);
}

Estimate direct_convolution(const Work& w, const Tables& tables, const Device& d) {
  const auto* c = std::get_if<Convolution>(&w.kind);
  const bool forward = w.family == Family::kConvForward;
  const StreamingWeights* p = tables.laws().streaming(forward ? "direct fwd" : "direct dgrad", d);
  if (c == nullptr || c->groups <= 0 || p == nullptr || !(p->alone > 0) || d.clock_mhz <= 0) return {};
  const double taps = static_cast<double>(c->kernel_h) * static_cast<double>(c->kernel_w);
  const double depth =
      static_cast<double>(forward ? c->input[1] : c->out_channels) / static_cast<double>(c->groups) * taps;
  return {direct_convolution_us(w.flops / 2, depth, *p, d), p->spread};
}

}  // namespace foretrace::hardware
