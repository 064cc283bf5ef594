// The one residual of all measured kinds of work: log(measured / law), from the nearest measured kernels.

#include <algorithm>
#include <cmath>

#include "hardware/cost_product.hpp"
#include "hardware/estimate.hpp"
#include "hardware/kernel_features.hpp"
#include "hardware/tables.hpp"

namespace foretrace::hardware {

namespace {

/// A piece of work among the measured kernels of its pool.
struct Place {
  KernelFeatures features;
  const KernelPool& pool;
  KernelTables& tables;

  [[nodiscard]] const Neighbours& samples() const { return pool.samples_for(features.autotuned); }
  [[nodiscard]] double autotuning() const { return features.autotuned ? pool.autotuning : 0; }
  [[nodiscard]] Neighbours::Prediction residual() const { return tables.answers(samples(), features.at).alone; }
  [[nodiscard]] Estimate estimate(double residual, double variance) const {
    return {features.law_us * std::exp(autotuning() + residual), pool.spread * std::sqrt(variance)};
  }
};

std::optional<Place> place_of(const Work& w, const Tables& tables, const Device& d) {
  std::optional<KernelFeatures> features = kernel_features(w, d, tables);
  const KernelPool* pool = features ? tables.pool(features->pool, d) : nullptr;
  if (pool == nullptr) return std::nullopt;
  return Place{std::move(*features), *pool, tables.kernels()};
}

}  // namespace

Estimate measured_estimate(const Work& w, const Tables& tables, const Device& d) {
  const std::optional<Place> place = place_of(w, tables, d);
  if (!place) return {};
  const Neighbours::Prediction residual = place->residual();
  if (!std::holds_alternative<Gemm>(w.kind) || same_silicon(place->pool.measured_on, d)) {
    return place->estimate(residual.value, residual.variance);
  }
  // The law of products has parameters of the architecture's own: of the residual goes along what goes along in a transfer, and the
  // error is that of products on GPUs nobody measured.
  const ProductWeights& there = tables.products().of(fitted_kind(product_of(w, d)), d);
  Estimate out =
      place->estimate(transferred_residual(residual.value, there, place->pool.measured_on, d), residual.variance);
  out.sigma = std::max(out.sigma, there.spread_new);
  return out;
}

Estimate estimate_from(const Work& w, const Work& known, double known_us, const Tables& tables, const Device& d) {
  const std::optional<Place> place = place_of(w, tables, d);
  const std::optional<Place> before = place_of(known, tables, d);
  if (!place || !before || known_us <= 0) return {};
  const double own = std::log(known_us / before->features.law_us) - before->autotuning();
  const Neighbours::Prediction there = before->residual();
  if (place->features.pool == before->features.pool) {
    // As one of the neighbours it counts less the further away it is; what made it differ from them may well stay. Between the
    // two is the least error over measured pairs (docs/accuracy.md). By means: a median leaps between the two places.
    const Neighbours::Answers answers = place->tables.answers(
        place->samples(), place->features.at, Neighbours::Sample{.at = before->features.at, .value = own});
    const double kept = answers.alone.mean + own - there.mean;
    return place->estimate((kept + answers.with_own.mean) / 2, answers.with_own.variance);
  }
  const Neighbours::Prediction residual = place->residual();
  const double carried = in_fp32(place->features.pool) == before->features.pool ? place->pool.from_fp32 : 0;
  return place->estimate(residual.value + carried * (own - there.value),
                         residual.variance * std::max(0.0, 1 - carried * carried));
}

}  // namespace foretrace::hardware
