#pragma once
// The one residual of the cost model: log(measured / law) of any work on any GPU. It is known from measured
// kernels, and from the kernels of the step itself. The correlation of two residuals is the product of:
//   the distance of their sizes           within a category, scaled by how much each size matters (neighbours.hpp)
//   precision, layout, pass and form      the correlation of the two categories (category_correlations.hpp)
//   how the algorithm was chosen          autotuning is a shift, uncorrelated with a bad heuristic choice
//   the device                            the correlation of two architectures (products.csv of transfer/)
//
//   Residual::Answer r = tables.residual().at(*kernel_features(work, device, tables), device);
//   double us = features.law_us * std::exp(r.value);

#include <optional>

#include "hardware/cost_models.hpp"
#include "hardware/cost_product.hpp"
#include "hardware/kernel_features.hpp"
#include "hardware/measured.hpp"

namespace foretrace::hardware {

class Residual {
 public:
  explicit Residual(const Tables& tables) : tables_(tables) {}

  struct Answer {
    double value = 0;
    double sigma = 0;
  };
  /// Work of the asker's whose time is known.
  struct Observation {
    KernelFeatures features;
    double us = 0;
  };
  /// Nothing where no kernel of the category was measured, or none of the observation's.
  [[nodiscard]] std::optional<Answer> at(const KernelFeatures& asked, const Device& device,
                                         const std::optional<Observation>& known = std::nullopt) const;
  /// A product whose time on one GPU is known, as that GPU's law sees it.
  struct Shown {
    ProductKind kind = ProductKind::kFp32;  ///< whose parameters the law followed
    double value = 0;                       ///< log(measured / law)
    double common = 0;                      ///< of that, what all products of the step have in common
  };
  /// The residual of the same product on another GPU, where its kind is `kind`.
  [[nodiscard]] double elsewhere(const Shown& shown, ProductKind kind, const Device& from, const Device& to) const;
  /// How much of a product's residual on one GPU shows on another.
  [[nodiscard]] double correlation(ProductKind kind, const Device& from, const Device& to) const;

 private:
  struct Among;  // the measured kernels of a category
  [[nodiscard]] std::optional<Among> among(const KernelFeatures& features, const Device& device) const;

  const Tables& tables_;
};

}  // namespace foretrace::hardware
