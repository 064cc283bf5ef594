#include "whatif/predict/other_gpu.hpp"

#include <fmt/format.h>

#include "hardware/learnt.hpp"
#include "whatif/predict/deviations.hpp"

namespace foretrace::whatif {

namespace {

std::string why(hardware::Learnt what, const hardware::Device& device, bool half) {
  const std::string_view precision = half ? "half precision" : "FP32 and TF32";
  using enum hardware::Learnt;
  switch (what) {
    case kDevice:
      return fmt::format("published steps in {} on boards of {}'s architecture were off by this much", precision,
                         device.name);
    case kArchitecture:
      return fmt::format("no product of {}'s architecture was measured in {}", device.name, precision);
    case kGeForce:
      return fmt::format("published steps in {} on GeForce cards were off by this much", precision);
    case kVendor:
      break;
  }
  return fmt::format("no step on a GPU of {}'s maker was measured", device.name);
}

}  // namespace

bool mostly_half(const Model& m) {
  double half = 0, all = 0;
  for (std::size_t t = 0; t < m.graph.size(); ++t) {
    const work::Work* w = m.works.of(t);
    if (w == nullptr || !work::is_product(*w)) continue;
    const auto time = static_cast<double>(m.graph.cost[t]);
    all += time;
    if (work::is_half(w->dtype) || w->dtype == work::Dtype::kFp8) half += time;
  }
  return half > all / 2;
}

void widen_to_learnt(Deviations& deviations, const Model& changed, const Model& base) {
  if (changed.device.name == base.device.name) return;
  const bool half = mostly_half(changed);
  const double width = kTenthPercentile * hardware::learnt_spread(changed.device, half);
  deviations.at_least("another GPU", width, width,
                      why(hardware::learnt_of(changed.device, half), changed.device, half));
}

}  // namespace foretrace::whatif
