#include "foretrace/hardware/transfer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hardware/cost_models.hpp"

namespace foretrace::hardware {

bool kernel_varies(Family family) {
  return family == Family::kGemm || family == Family::kConvForward || family == Family::kConvDataGrad ||
         family == Family::kConvWeightGrad || family == Family::kAttention || family == Family::kRnn;
}

Status can_transfer(const Device& from, const Device& to) {
  for (const Device* d : {&from, &to}) {
    if (d->vendor == "nvidia") continue;
    return fail(ErrorCode::kDeclined,
                fmt::format("kernels of {} ({}) are not measured, so nothing can be carried over", d->name, d->vendor),
                "the devices of vendor nvidia in 'foretrace list devices' can be asked for");
  }
  return {};
}

Cost transfer(double measured_ns, double operation_ns, const Work& work, const KernelShape&, const Device& from,
              const Device& to) {
  Cost cost = rescale(operation_ns, work, from, work, to);
  if (cost.known && operation_ns > 0) cost.ns *= measured_ns / operation_ns;
  return cost;
}

}  // namespace foretrace::hardware
