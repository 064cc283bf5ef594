#include "hardware/choice/conv_algorithm.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "base/text.hpp"
#include "hardware/choice/layout_changes.hpp"
#include "hardware/conv_tensors.hpp"
#include "hardware/tables.hpp"

namespace foretrace::hardware {

namespace {

using work::Convolution;
using work::Dtype;
using work::Family;
using work::Work;
using Method = ConvAlgorithm::Method;

// ---- Measured choices ------------------------------------------------------------------------------------------------------

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// "32t32": of a batch of 32, Fourier transforms in tiles of 32 x 32.
std::pair<std::int64_t, ConvAlgorithm> parse_choice(std::string_view text) {
  const std::size_t letter = std::min(text.find_first_not_of("0123456789"), text.size() - 1);
  ConvAlgorithm a;
  switch (text[letter]) {
    case 'w':
      a.method = Method::kWinograd;
      break;
    case 'f':
    case 't':
      a.method = text[letter] == 'f' ? Method::kFourier : Method::kFourierTiles;
      a.edge = number(text.substr(letter + 1)).value_or(0);
      break;
    case 'x':
      a.method = Method::kUnknown;
      break;
    default:
      break;
  }
  return {number(text.substr(0, letter)).value_or(0), a};
}

}  // namespace

ConvChoices::ConvChoices(std::string_view csv) {
  for (CsvReader row(csv); row.next();) {
    const std::string_view names[] = {"c", "h", "w", "k", "r", "s", "out_h", "out_w", "groups"};
    Layer layer{};
    for (std::size_t i = 0; i < layer.size(); ++i) layer[i] = number(row[names[i]]).value_or(0);
    const Family pass = row["pass"] == "fwd"     ? Family::kConvForward
                        : row["pass"] == "dgrad" ? Family::kConvDataGrad
                                                 : Family::kConvWeightGrad;
    Series& series =
        by_layer_[{pass, row["type"] == "tf32" ? Dtype::kTf32 : Dtype::kFp32, row["layout"] == "nhwc", layer}];
    for (const std::string_view choice : split(row["series"], ' ')) {
      if (!choice.empty()) series.push_back(parse_choice(choice));
    }
  }
}

std::optional<ConvAlgorithm> ConvChoices::find(const Work& w) const {
  const auto* c = std::get_if<Convolution>(&w.kind);
  if (c == nullptr || c->tuned || c->stride != 1 || c->dilation != 1 || c->dimensions != 2 || c->input[0] <= 0) {
    return std::nullopt;
  }
  const auto found = by_layer_.find({w.family, w.dtype, c->channels_last,
                                     Layer{c->input[1], c->input[2], c->input[3], c->out_channels, c->kernel_h,
                                           c->kernel_w, c->out_h, c->out_w, std::max<std::int64_t>(1, c->groups)}});
  if (found == by_layer_.end()) return std::nullopt;
  const auto far = [&](const auto& choice) {
    return std::abs(std::log(static_cast<double>(choice.first) / static_cast<double>(c->input[0])));
  };
  return std::min_element(found->second.begin(), found->second.end(),
                          [&](const auto& a, const auto& b) { return far(a) < far(b); })
      ->second;
}

namespace {

// ---- Laws of scratch memory ------------------------------------------------------------------------------------------------

// Pairs of channels that a filter connects.
std::int64_t filters_of(const Convolution& c) { return saturated_product(c.out_channels, c.channels_per_group()); }

std::int64_t parts(std::int64_t size, std::int64_t of) { return (size + of - 1) / std::max<std::int64_t>(1, of); }

// Of 4 x 4 results each, transformed from 6 x 6: both operands and the filters' gradient, in fp32.
std::int64_t winograd_bytes(const Convolution& c) {
  const std::int64_t tiles = saturated_product({c.input[0], parts(c.out_h, 4), parts(c.out_w, 4)});
  const std::int64_t channels = saturated_sum(c.input[1], c.out_channels);
  return saturated_product(4 * 36, saturated_sum(saturated_product(channels, tiles), filters_of(c)));
}

// A real image of edge x edge has as many complex coefficients as edge x (edge / 2 + 1).
std::int64_t plane_bytes(std::int64_t edge) { return saturated_product({8, edge, edge / 2 + 1}); }

// Both operands and the result, each twice since they are sorted by frequency for the product and back; what is written last is where
// what was read first lay. One operand is turned round before.
std::int64_t fourier_bytes(const Work& w, const Convolution& c, const ConvTensors& t, std::int64_t edge) {
  const std::int64_t filters = filters_of(c);
  const std::int64_t images_in = saturated_product(c.input[0], c.input[1]);
  const std::int64_t images_out = saturated_product(c.input[0], c.out_channels);
  const bool weights = w.family == Family::kConvWeightGrad;
  const bool forward = w.family == Family::kConvForward;
  const std::int64_t operands =
      weights ? saturated_sum(images_in, images_out) : saturated_sum(filters, forward ? images_in : images_out);
  const std::int64_t result = weights ? filters : forward ? images_out : images_in;
  const std::int64_t turned = weights ? t.out : t.filter;
  return saturated_sum(saturated_product({2, plane_bytes(edge), std::max(operands, result)}),
                       saturated_product(4, turned));
}

// The filters, and the images of one tile; two tiles are processed in parallel.
std::int64_t fourier_tiles_bytes(const Work& w, const Convolution& c, std::int64_t edge) {
  const std::int64_t whole = edge - std::max(c.kernel_h, c.kernel_w) + 1;
  const bool to_input = w.family == Family::kConvDataGrad;
  const std::int64_t tiles =
      saturated_product(parts(to_input ? c.input[2] : c.out_h, whole), parts(to_input ? c.input[3] : c.out_w, whole));
  const std::int64_t images = saturated_product(c.input[0], saturated_sum(c.input[1], c.out_channels));
  return saturated_product(plane_bytes(edge),
                           saturated_sum(filters_of(c), saturated_product(tiles == 1 ? 1 : 2, images)));
}

}  // namespace

ConvAlgorithm algorithm_of_kernels(std::span<const std::string_view> kernels) {
  ConvAlgorithm a;
  bool turned = false;
  constexpr std::string_view kTransform = "fft2d_r2c_";
  constexpr std::int64_t kLargestEdge = 4096;  // by definition of an image: a damaged name may say anything
  for (const std::string_view name : kernels) {
    turned = turned || contains(name, "flip_filter");
    if (const std::size_t at = name.find(kTransform); at != std::string_view::npos) {
      const std::int64_t edge = number(name.substr(at + kTransform.size())).value_or(0);
      a = edge > 0 && edge <= kLargestEdge ? ConvAlgorithm{Method::kFourierTiles, edge}
                                           : ConvAlgorithm{Method::kUnknown, 0};
    } else if (contains(name, "winograd_nonfused")) {
      a.method = contains(name, "4x4")           ? Method::kWinograd
                 : a.method == Method::kWinograd ? a.method
                                                 : Method::kUnknown;
    } else if (contains(name, "fft") && a.method == Method::kProduct) {
      a.method = Method::kUnknown;
    }
  }
  if (turned && a.method == Method::kFourierTiles) a.method = Method::kFourier;
  return a;
}

ConvAlgorithm chosen_algorithm(const Work& work, const Work& recorded, const ConvAlgorithm& ran, const Device& device) {
  if (!is_conv(work) || !is_conv(recorded) || (work.dtype != Dtype::kFp32 && work.dtype != Dtype::kTf32)) return {};
  // A library of another version, or one that tried its algorithms, chooses otherwise: then the table says nothing.
  const ConvChoices& choices = Tables::shipped().of(device).algorithms;
  if (choices.find(recorded).value_or(ConvAlgorithm{}) == ran) {
    if (const std::optional<ConvAlgorithm> now = choices.find(work)) return *now;
  }
  return work.dtype == recorded.dtype ? ran : ConvAlgorithm{};
}

// Of 2,028 convolutions in data/h200-operations that cuDNN 9.19 transformed, with up to 64 groups, in both layouts, this is what was
// allocated, but for the allocator's rounding (tools/fit_algorithms.py --figures).
std::optional<std::int64_t> scratch_bytes(const Work& w, const ConvAlgorithm& a) {
  const auto* c = std::get_if<Convolution>(&w.kind);
  if (c == nullptr || a.method == Method::kUnknown) return std::nullopt;
  if (a.method == Method::kProduct) {
    std::int64_t elements = 0;
    for (const LayoutChange& change : layout_changes(w)) elements = saturated_sum(elements, change.elements);
    return saturated_product(elements, work::bytes_of(w.dtype));
  }
  const ConvTensors t = tensors_of(*c);
  std::int64_t bytes = a.method == Method::kWinograd  ? winograd_bytes(*c)
                       : a.method == Method::kFourier ? fourier_bytes(w, *c, t, a.edge)
                                                      : fourier_tiles_bytes(w, *c, a.edge);
  // Transforms read and write NCHW. Groups are apart in it: Fourier's want each in one piece.
  const std::int64_t tensors = saturated_product(4, saturated_sum(t.in, t.out));
  if (c->channels_last) {
    const std::int64_t filter = c->kernel_h * c->kernel_w > 1 ? saturated_product(4, t.filter) : 0;
    bytes = saturated_sum(bytes, saturated_sum(tensors, filter));
  } else if (c->groups > 1 && a.method != Method::kWinograd) {
    bytes = saturated_sum(bytes, tensors);
  }
  constexpr std::int64_t kGroupsAtOnce = 8;  // cuDNN's own: with 16 to 64 groups scratch memory is that of eight
  return c->groups > kGroupsAtOnce ? bytes / c->groups * kGroupsAtOnce : bytes;
}

}  // namespace foretrace::hardware
