#pragma once
// advise: what to switch on, ranked by gain.

#include <string>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/report/text_style.hpp"
#include "foretrace/search/advise.hpp"

namespace foretrace::report {

struct AdviseReport {
  analysis::StepFigures baseline;
  search::Advised advised;
};

std::string to_text(const AdviseReport& report, const TextStyle& style);
std::string to_json(const AdviseReport& report);

}  // namespace foretrace::report
