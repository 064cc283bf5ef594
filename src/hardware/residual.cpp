#include "hardware/residual.hpp"

#include <algorithm>
#include <cmath>

#include "hardware/tables.hpp"

namespace foretrace::hardware {

struct Residual::Among {
  const KernelFeatures& features;
  const MeasuredCategory& measured;
  KernelTables& tables;
  double share = 1;  ///< of a residual there that shows on the device

  [[nodiscard]] double autotuning() const { return features.autotuned ? measured.autotuning : 0; }
  [[nodiscard]] Neighbours::Answers at(const Features& place,
                                       const std::optional<Neighbours::Sample>& own = std::nullopt) const {
    return tables.answers(measured.samples, place, {.misguessed = !features.autotuned}, own);
  }
};

std::optional<Residual::Among> Residual::among(const KernelFeatures& features, const Device& device) const {
  const MeasuredCategory* const measured = tables_.category(features.category, device);
  if (measured == nullptr) return std::nullopt;
  const double share = features.product ? correlation(*features.product, measured->measured_on, device) : 1;
  return Among{features, *measured, tables_.kernels(), share};
}

std::optional<Residual::Answer> Residual::at(const KernelFeatures& asked, const Device& device,
                                             const std::optional<Observation>& known) const {
  const std::optional<Among> here = among(asked, device);
  const std::optional<Among> there = known ? among(known->features, device) : std::nullopt;
  if (!here || (known && !there)) return std::nullopt;
  const Neighbours::Prediction alone = here->at(asked.at).alone;
  double value = here->share * alone.value, variance = alone.variance;
  const std::string& category = asked.category;
  const double correlation =
      known ? tables_.kernels().correlation(category, known->features.category, here->measured.measured_on.name) : 0;
  if (correlation > 0) {
    // Within a category by means: a median leaps between the two places.
    const bool same = category == known->features.category;
    if (same) value = here->share * alone.mean;
    const Neighbours::Prediction expected = there->at(known->features.at).alone;
    const double own = std::log(known->us / known->features.law_us) - there->autotuning();
    const double more = own - there->share * (same ? expected.mean : expected.value);
    // What the observation shows beyond the measured kernels, as a sample of the category that is asked for. As one of the neighbours it
    // counts less the further away it is; what made it differ from them may well stay. Between the two is the least error over measured
    // pairs (docs/internals/accuracy.md). The law of products carries further: all of it stays.
    const double stays = asked.product ? 1 : 0.5;
    const double level = same ? expected.mean : here->at(known->features.at).alone.mean;
    const Neighbours::Sample sample{.at = known->features.at, .value = level + more};
    const Neighbours::Prediction with_own = here->at(asked.at, sample).with_own;
    value += correlation * (stays * more + (1 - stays) * (with_own.mean - alone.mean));
    variance += correlation * correlation * (with_own.variance - alone.variance);
  }
  Answer out{value + here->autotuning(), here->measured.spread * std::sqrt(variance)};
  // On other silicon the error is that of products on GPUs that were not measured, as far as no time of that GPU is known.
  if (asked.product && !same_silicon(here->measured.measured_on, device)) {
    const double unknown = std::sqrt(1 - correlation * correlation);
    out.sigma = std::max(out.sigma, unknown * tables_.products().of(*asked.product, device).spread_new);
  }
  return out;
}

double Residual::elsewhere(const Shown& shown, ProductKind kind, const Device& from, const Device& to) const {
  const TransferWeights& products = tables_.products();
  const ProductWeights& there = products.of(kind, to);
  const bool same = same_silicon(from, to);
  // What all products share is theirs where the law knows the origin, mostly the origin's own where it does not.
  const double share = same ? 1.0 : products.knows(shown.kind, from) ? there.common_known : there.common_new;
  const double common = same ? shown.common : std::clamp(shown.common, -there.most_common, there.most_common);
  return share * common + correlation(kind, from, to) * (shown.value - shown.common);
}

double Residual::correlation(ProductKind kind, const Device& from, const Device& to) const {
  if (same_silicon(from, to)) return 1;
  const ProductWeights& there = tables_.products().of(kind, to);
  for (const auto& [architecture, share] : there.carry_from) {
    if (architecture == architecture_of(from).laws) return share;
  }
  return there.carry_other;
}

}  // namespace foretrace::hardware
