#pragma once
// Questions about one step, and the answers as plain Python values.

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::python {

/// The fields of foretrace.Prediction; `graph` is None where it was declined.
nanobind::dict prediction_dict(whatif::Prediction&& prediction);
/// The file, and the fields of foretrace.Exported.
nanobind::tuple exported_tuple(const report::Exported& exported);
/// The fields of foretrace.PredictedRank, a row for each.
nanobind::list rank_rows(const std::vector<whatif::RankTime>& ranks);
nanobind::tuple text_tuple(const std::vector<std::string>& texts);
template <class T>
nanobind::object or_none(const std::optional<T>& value) {
  return value ? nanobind::cast(*value) : nanobind::object(nanobind::none());
}

/// Uses as they are written, or what add_whatif gave for one of the user's; a wrong one raises.
std::vector<whatif::Use> parse_uses(const nanobind::list& given);

/// Model.advise, Model.optimize, Model.scale (questions.cpp).
void bind_questions(nanobind::class_<analysis::Baseline>& model);

}  // namespace foretrace::python
