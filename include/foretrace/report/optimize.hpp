#pragma once
// optimize: the best strategy found, what each part of it gives, and how to switch it on.

#include <optional>
#include <string>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/report/text_style.hpp"
#include "foretrace/search/optimize.hpp"

namespace foretrace::report {

struct OptimizeReport {
  analysis::StepFigures base;
  search::Optimized found;
};

std::string to_text(const OptimizeReport& report, const TextStyle& style);
std::string to_json(const OptimizeReport& report);

/// The file `whatif --strategy` reads back.
std::string strategy_json(const search::Strategy& strategy);
/// A short PyTorch script that switches the strategy on; every line says what it is predicted to gain.
std::string pytorch_script(const OptimizeReport& report);

}  // namespace foretrace::report
