#include <cmath>

#include "hardware/collective.hpp"
#include "hardware/protocols.hpp"

namespace foretrace::hardware {

namespace {

constexpr int kHalvings = 60;  // a double's precision

// The value at which a function that grows (or falls) with it reaches a target; the range is bisected by ratios.
template <class F>
double solve(double low, double high, bool grows, double target, F value_at) {
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = std::sqrt(low * high);
    ((value_at(middle) > target) == grows ? high : low) = middle;
  }
  return std::sqrt(low * high);
}

double micros(const Fabric& fabric, const CollectiveRow& row) {
  return static_cast<double>(FabricCollectives(fabric).cost({row.kind, row.bytes, row.ranks}).ns) * 1e-3;
}

}  // namespace

Fabric calibrate(Fabric fabric, std::size_t level, const CollectiveRow& smallest, const CollectiveRow& largest) {
  fabric.floor_us = 0;
  fabric.levels[level].efficiency = 1;
  const double typical = protocols().typical_scale[static_cast<std::size_t>(fabric.levels[level].link)];
  for (int round = 0; round < 8; ++round) {  // the two influence each other a little
    Fabric trial = fabric;
    fabric.levels[level].gbs = solve(1e-4, 1e5, false, largest.ms * 1e3, [&](double gbs) {
      trial.levels[level].gbs = gbs;
      return micros(trial, largest);
    });
    trial = fabric;
    trial.floor_us = 0;
    double scale = solve(1e-3, 1e4, true, smallest.ms * 1e3, [&](double s) {
      trial.levels[level].latency_scale = s;
      return micros(trial, smallest);
    });
    const bool host = fabric.levels[level].link != LinkKind::kNetwork && scale * typical > protocols().slowest;
    fabric.floor_us = host ? smallest.ms * 1e3 : 0;
    fabric.levels[level].latency_scale = host ? 1 : scale;
  }
  return fabric;
}

}  // namespace foretrace::hardware
