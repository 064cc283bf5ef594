#pragma once
// What similar work is found by: category, features, and the time by the law. The residual (residual.hpp) corrects
// that law.

#include <cstddef>
#include <optional>
#include <string>

#include "hardware/clocks.hpp"
#include "hardware/cost_models.hpp"
#include "hardware/cost_product.hpp"
#include "hardware/neighbours.hpp"

namespace foretrace::hardware {

class Tables;

struct KernelFeatures {
  std::string category;  ///< kind, pass, form, precision and layout: "conv fwd grouped fp16 nhwc"
  Features at{};
  std::size_t features = 0;
  double law_us = 0;
  double serial_us = 0;    ///< the part of it that follows the clock: dependent steps, starts of blocks and kernels
  bool autotuned = false;  ///< the library tried its algorithms on this shape
  std::optional<ProductKind> product;  ///< of work whose law has parameters of the architecture's own
};

/// Nothing for work that streams, which has no residual, and for work without sizes.
std::optional<KernelFeatures> kernel_features(const Work& work, const Device& device, const Tables& tables);
/// With other clocks than those of the tables (tools/fit_clocks.py tries many).
std::optional<KernelFeatures> kernel_features(const Work& work, const Device& device, const Tables& tables,
                                              const Clocks& clocks);
/// The same with a law of 0 for kinds whose law takes long: what their tables are read with.
std::optional<KernelFeatures> features_without_law(const Work& work, const Device& device, const Tables& tables,
                                                   const Clocks& clocks);

}  // namespace foretrace::hardware
