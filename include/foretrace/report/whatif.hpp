#pragma once
// whatif: predictions beside the baseline they start from.

#include <optional>
#include <string>
#include <vector>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/report/text_style.hpp"

namespace foretrace::search {
struct Optimized;
}

namespace foretrace::report {

struct WhatIfReport {
  analysis::StepFigures baseline;
  std::vector<whatif::Prediction> predictions;
  std::optional<double> batch = {};  ///< samples in the traced step, where somebody said
};

std::string to_text(const WhatIfReport& report, const TextStyle& style);
/// `plan`: a strategy that was asked for too, shown as `optimize` shows its own.
std::string to_json(const WhatIfReport& report, const search::Optimized* plan = nullptr);

}  // namespace foretrace::report
