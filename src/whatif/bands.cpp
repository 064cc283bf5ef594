#include "whatif/bands.hpp"

#include <array>
#include <cmath>

namespace foretrace::whatif {

namespace {
constexpr double kTenthPercentile = 1.2816;  // standard deviations
}

double modelled_sigma(hardware::Family family) {
  using hardware::Family;
  switch (family) {
    case Family::kGemm:
      return 0.06;
    case Family::kConvForward:
    case Family::kConvDataGrad:
    case Family::kConvWeightGrad:
      return 0.12;
    case Family::kAttention:
    case Family::kRnn:
      return 0.15;
    case Family::kOptimizer:
    case Family::kElementwise:
    case Family::kCopy:
      return 0.08;
    default:
      return 0.15;
  }
}

Band band_around(const Model& changed, const Model& base, Ns step, const simulate::Schedule* policy) {
  const graph::Graph& g = changed.graph;
  double up = 0;
  double down = 0;
  const auto deviate = [&](auto factor_of) {
    std::vector<Ns> cost(g.size());
    double ends[2] = {};
    for (const int sign : {1, -1}) {
      for (std::size_t t = 0; t < g.size(); ++t) {
        const double sigma = factor_of(t);
        cost[t] = sigma == 0 ? g.cost[t]
                             : static_cast<Ns>(std::llround(static_cast<double>(g.cost[t]) * std::exp(sign * sigma)));
      }
      ends[sign < 0 ? 1 : 0] = static_cast<double>(simulate::steady_state(g, {cost, policy}).timeline.step - step);
    }
    up += std::pow(std::max({ends[0], ends[1], 0.0}), 2);
    down += std::pow(std::max({-ends[0], -ends[1], 0.0}), 2);
  };
  deviate([&](std::size_t t) {
    return graph::is_gpu(g.kind[t]) ? 0.0 : base.base.sigma[static_cast<std::size_t>(cpu_phase(g, t))];
  });
  deviate([&](std::size_t t) { return graph::is_gpu(g.kind[t]) ? base.base.sigma[kCpuPhases] : 0.0; });
  std::array<bool, hardware::kFamilies> modelled = {};
  const auto family_of = [&](std::size_t t) {
    return g.work[t] == graph::Graph::kNoWork ? hardware::Family::kOther : changed.works[g.work[t]].family;
  };
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t]) && g.origin[t] >= graph::Origin::kModelled) {
      modelled[static_cast<std::size_t>(family_of(t))] = true;
    }
  }
  for (std::size_t f = 0; f < hardware::kFamilies; ++f) {
    if (!modelled[f]) continue;
    const auto family = static_cast<hardware::Family>(f);
    deviate([&](std::size_t t) {
      const bool mine = graph::is_gpu(g.kind[t]) && g.origin[t] >= graph::Origin::kModelled && family_of(t) == family;
      return mine ? modelled_sigma(family) : 0.0;
    });
  }
  Band band;
  band.high = step + static_cast<Ns>(kTenthPercentile * std::sqrt(up));
  band.low = std::max<Ns>(0, step - static_cast<Ns>(kTenthPercentile * std::sqrt(down)));
  return band;
}

}  // namespace foretrace::whatif
