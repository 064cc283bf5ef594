// Work limited by memory: a start, and bytes over the share of the bandwidth its kind of kernel reaches.

#include <algorithm>
#include <cmath>

#include "hardware/cost_models.hpp"

namespace foretrace::hardware {

Model memory_model(const Work& w, const Device& d) {
  if (w.family == Family::kMemory) {
    if (w.bytes() <= 0) return {};
    return {1.0 + stream_us(w.bytes(), d), 0.2};
  }
  if (w.elements <= 0) return {};
  double share = 1.0;  // of the streaming bandwidth
  double floor = 1.0;
  double sigma = 0.12;
  switch (w.family) {
    case Family::kElementwise:
    case Family::kOptimizer:
    case Family::kCopy:
      share = w.access == Access::kContiguous ? 1.0 : w.access == Access::kMixed ? 0.55 : 0.5;
      break;
    case Family::kLayerNorm:
      share = w.backward ? 0.31 : 0.45;
      floor = 2;
      break;
    case Family::kSoftmax:
      share = 0.62;
      break;
    case Family::kBatchNorm:
      share = w.backward ? 0.45 : 0.40;
      sigma = 0.3;
      floor = 3;
      break;
    case Family::kReduction:
      share = 0.6;
      floor = 3;
      sigma = 0.2;
      break;
    default:
      share = 0.5;
      floor = 2;
      sigma = 0.4;
      break;
  }
  return {floor + w.bytes() / (d.streaming_gbs() * share * 1e3), sigma};
}

}  // namespace foretrace::hardware
