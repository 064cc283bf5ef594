#pragma once
// advise: what to switch on, ranked by gain.

#include <string>

#include "foretrace/report/text_style.hpp"
#include "foretrace/report/whatif.hpp"
#include "foretrace/search/advise.hpp"

namespace foretrace::report {

struct AdviseReport {
  WhatIfReport baseline;  ///< without predictions
  search::Advised advised;
};

AdviseReport make_advise(Baseline baseline, const search::AdviseOptions& options);

std::string to_text(const AdviseReport& report, const TextStyle& style);
std::string to_json(const AdviseReport& report);

}  // namespace foretrace::report
