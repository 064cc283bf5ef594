#pragma once
// What only the page shows of a step: where each operation is under the roofline, memory over the step
// with the composition of its peak, and precomputed answers for its sliders.

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/analysis/gpus.hpp"
#include "foretrace/overview/overview.hpp"
#include "report/json_writer.hpp"

namespace foretrace::report {

/// The member "roofline": the GPU's limits, and operations with their FLOP, bytes and time.
void write_roofline(JsonWriter& json, const overview::Overview& overview);
/// The member "memory": bytes by kind at up to some hundred moments; null without memory events.
void write_memory(JsonWriter& json, const analysis::Baseline& baseline);
/// The member "sliders": what was computed for each, as columns.
void write_sliders(JsonWriter& json, const std::vector<analysis::Slider>& sliders);

}  // namespace foretrace::report
