#pragma once
// What questions about one step start from, and the answers as plain Python values.

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::python {

struct StepModel {
  whatif::Model model;
  std::optional<Ns> measured;
  std::string file, step_name;
  Ns traced = 0;
};

/// The fields of foretrace.Prediction; `graph` is None where it was declined.
nanobind::dict prediction_dict(whatif::Prediction&& prediction);
nanobind::tuple text_tuple(const std::vector<std::string>& texts);
template <class T>
nanobind::object or_none(const std::optional<T>& value) {
  return value ? nanobind::cast(*value) : nanobind::object(nanobind::none());
}

/// A what-if of the user's, as an object.
struct OwnWhatIf {
  std::shared_ptr<const whatif::WhatIf> whatif;
};

/// Uses as they are written, or objects; a wrong one raises.
std::vector<whatif::Use> parse_uses(const nanobind::list& given);

/// Model.advise, Model.optimize, Model.scale (questions.cpp).
void bind_questions(nanobind::class_<StepModel>& model);

}  // namespace foretrace::python
