#pragma once
// All ranks of one job, as text and JSON.

#include <string>

#include "foretrace/analysis/ranks.hpp"
#include "foretrace/report/text_style.hpp"

namespace foretrace::report {

std::string to_text(const analysis::RanksReport& report, const TextStyle& style = {});
/// An object that starts with "schema": 1.
std::string to_json(const analysis::RanksReport& report);

}  // namespace foretrace::report
