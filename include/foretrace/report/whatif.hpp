#pragma once
// whatif: predictions beside the baseline they start from.

#include <optional>
#include <string>
#include <vector>

#include "foretrace/report/text_style.hpp"
#include "foretrace/trace/steps.hpp"
#include "foretrace/trace/trace.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::search {
struct Optimized;
}

namespace foretrace::report {

struct WhatIfReport {
  std::string file;
  std::string step_name;
  std::string device;
  Ns traced = 0, replayed = 0, unprofiled = 0, unprofiled_low = 0, unprofiled_high = 0;
  std::optional<Ns> period;  ///< where the GPU runs behind the CPU: the distance of the same work in two steps
  std::optional<Ns> measured;
  std::string measured_refused;  ///< why the figure the recorder stored is not used; empty when it is, or there is none
  std::optional<std::int64_t> peak_bytes;
  double memory_gb = 0;         ///< of the GPU; 0 when unknown
  std::optional<double> batch;  ///< samples in the traced step, where somebody said
  std::vector<whatif::FamilyTime> gpu_families;
  std::vector<whatif::Prediction> predictions;
};

/// The baseline of a trace: the model what-ifs start from, and the figures a report shows of it.
struct Baseline {
  whatif::Model model;
  WhatIfReport report;  ///< without predictions
};
/// `step`: its number, else the median step. `measured_ms`: else what the recorder stored in the trace.
Result<Baseline> make_baseline(const trace::Trace& trace, std::optional<std::int64_t> step,
                               std::optional<double> measured_ms);

/// Predicts each use alone, or all together when `stacked`.
void add_predictions(Baseline& baseline, const std::vector<whatif::Use>& uses, bool stacked);

std::string to_text(const WhatIfReport& report, const TextStyle& style);
/// `plan`: a strategy that was asked for too, shown as `optimize` shows its own.
std::string to_json(const WhatIfReport& report, const search::Optimized* plan = nullptr);

}  // namespace foretrace::report
