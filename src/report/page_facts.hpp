#pragma once
// What only the page shows of a step: where each operation lies under the roofline, memory over the step, and answers computed
// beforehand for its sliders.

#include "foretrace/analysis/baseline.hpp"
#include "report/json_writer.hpp"

namespace foretrace::report {

/// The member "roofline": the GPU's limits, and operations with their FLOP, bytes and time.
void write_roofline(JsonWriter& json, const analysis::Baseline& baseline);
/// The member "memory": bytes by kind at up to some hundred moments; null without memory events.
void write_memory(JsonWriter& json, const analysis::Baseline& baseline);
/// The member "sliders": by name, the values that were tried and what each gives.
void write_sliders(JsonWriter& json, const analysis::Baseline& baseline);

}  // namespace foretrace::report
