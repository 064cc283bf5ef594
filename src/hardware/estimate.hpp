#pragma once
// predict() and rescale() of foretrace/hardware/cost.hpp with tables other than those compiled in.

#include "hardware/cost.hpp"
#include "hardware/cost_models.hpp"

namespace foretrace::hardware {

/// The device whose measured kernels stand for this one: its own where it was measured.
const Device& measured_device(const Device& device);

Cost predict(const work::Work& work, const Device& device, const Tables& tables);
Cost rescale(double measured_ns, const work::Work& was, const work::Work& becomes, const Device& device,
             const Tables& tables);

}  // namespace foretrace::hardware
