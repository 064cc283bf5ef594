#include "work/conv_parts.hpp"

#include <algorithm>

#include "work/op_names.hpp"

namespace foretrace::work {

std::vector<ConvPart> conv_parts(std::span<const std::string_view> kernels, bool wants_data, bool wants_weight) {
  const std::size_t n = kernels.size();
  if (!wants_data) return std::vector<ConvPart>(n, ConvPart::kWeight);
  if (!wants_weight) return std::vector<ConvPart>(n, ConvPart::kData);

  std::vector<Family> label(n);
  std::vector<std::size_t> unnamed;  // products without a word about their purpose
  bool weight_first = false;
  std::size_t first_weight = n;
  std::size_t last_data = n;
  for (std::size_t i = 0; i < n; ++i) {
    label[i] = conv_part_of_kernel(kernels[i]);
    if (label[i] == Family::kConvWeightGrad) first_weight = std::min(first_weight, i);
    if (label[i] == Family::kConvDataGrad) {
      weight_first = weight_first || (last_data == n && first_weight < i);
      last_data = i;
    }
    if (label[i] == Family::kOther) unnamed.push_back(i);
  }
  if (weight_first) {
    // The framework's own depthwise kernels: every one says what it is, helpers belong to what follows them.
    std::vector<ConvPart> parts(n, ConvPart::kData);
    ConvPart next = ConvPart::kData;
    for (std::size_t i = n; i-- > 0;) {
      if (label[i] == Family::kConvWeightGrad) next = ConvPart::kWeight;
      if (label[i] == Family::kConvDataGrad) next = ConvPart::kData;
      parts[i] = next;
    }
    return parts;
  }
  // Where does the weight gradient begin?
  std::size_t boundary = n;
  if (first_weight < n) {
    boundary = first_weight;
  } else if (last_data < n) {
    boundary = last_data + 1;
  } else if (unnamed.size() >= 2) {
    boundary = unnamed[unnamed.size() / 2];
  } else {
    return std::vector<ConvPart>(n, ConvPart::kWeight);
  }
  // What finishes the data gradient stays with it, what prepares the weight gradient goes with that.
  if (last_data == n || first_weight == n) {
    while (boundary < n && first_weight == n && label[boundary] == Family::kReduction) ++boundary;
  }
  while (boundary > 0 && label[boundary - 1] == Family::kCopy && (last_data == n || boundary - 1 > last_data))
    --boundary;

  std::vector<ConvPart> parts(n, ConvPart::kData);
  for (std::size_t i = boundary; i < n; ++i) parts[i] = ConvPart::kWeight;
  return parts;
}

}  // namespace foretrace::work
