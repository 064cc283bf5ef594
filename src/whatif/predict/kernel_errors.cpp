#include "whatif/predict/kernel_errors.hpp"

#include <cmath>

#include "hardware/cost.hpp"
#include "hardware/estimate.hpp"
#include "hardware/measured.hpp"
#include "hardware/transfer.hpp"

namespace foretrace::whatif {

work::Family family_of(const Model& m, std::size_t task) {
  const work::Work* work = m.works.of(task);
  return work == nullptr ? work::Family::kOther : work->family;
}

std::size_t error_family(work::Family family) {
  using work::Family;
  switch (family) {
    case Family::kGemm:
      return 0;
    case Family::kConvForward:
    case Family::kConvDataGrad:
    case Family::kConvWeightGrad:
      return 1;
    case Family::kAttention:
      return 2;
    case Family::kRnn:
      return 3;
    default:
      return 4;
  }
}

bool is_written(const Model& m, std::size_t task) {
  const work::Work* work = m.works.of(task);
  return work != nullptr && work->written && m.graph.origin[task] >= graph::Origin::kScaled;
}

KernelSigmas kernel_sigmas(const Model& m) {
  std::vector<double> modelled(m.works.size(), 0.0), scaled(m.works.size(), 0.0);
  for (std::size_t t = 0; t < m.graph.size(); ++t) {
    const std::uint32_t row = m.works.row_of(t);
    if (row >= modelled.size() || m.graph.origin[t] < graph::Origin::kScaled || m.works[row].written) continue;
    (m.graph.origin[t] == graph::Origin::kScaled ? scaled : modelled)[row] += static_cast<double>(m.graph.cost[t]);
  }
  const hardware::Device measured = hardware::measured_device(m.device);
  KernelSigmas sigmas;
  double all_scaled = 0;
  std::array<double, kErrorFamilies.size()> all{};
  for (std::size_t row = 0; row < modelled.size(); ++row) {
    const work::Work& work = m.works[row];
    all_scaled += scaled[row];
    sigmas.scaled += work.sigma * work.sigma * scaled[row] * scaled[row];
    if (modelled[row] <= 0) continue;
    // The estimate of a kernel's time came with its uncertainty; without one, the model's own error counts.
    const std::size_t f = error_family(work.family);
    const hardware::Cost cost = work.sigma > 0 ? hardware::Cost{} : hardware::predict(work, m.device);
    const double off = (cost.known ? cost.sigma : work.sigma) * modelled[row];
    all[f] += modelled[row];
    sigmas.modelled[f] += off * off;
    // A step that was moved to its GPU as a whole has that in its times already.
    if (m.device.name == measured.name || m.moved_sigma[static_cast<std::size_t>(work.family)] > 0) continue;
    const hardware::Cost carried = hardware::transfer(modelled[row], modelled[row], work, {}, measured, m.device);
    sigmas.elsewhere[f] += (carried.known ? carried.sigma : hardware::kUntransferableSigma) * modelled[row];
  }
  if (all_scaled > 0) sigmas.scaled = std::sqrt(sigmas.scaled) / all_scaled;
  for (std::size_t f = 0; f < all.size(); ++f) {
    if (all[f] <= 0) continue;
    sigmas.modelled[f] = std::sqrt(sigmas.modelled[f]) / all[f];
    sigmas.elsewhere[f] /= all[f];
  }
  return sigmas;
}

}  // namespace foretrace::whatif
