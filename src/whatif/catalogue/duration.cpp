#include <fmt/format.h>

#include "whatif/catalogue/catalogue.hpp"

namespace foretrace::whatif {

namespace {

Status apply_duration(Model&, Draft& draft, const Parameters& parameters) {
  const std::string& pattern = parameters.text("select");
  Selection tasks = draft.select({.name = pattern});
  if (tasks.empty()) tasks = draft.select({.gpu = true, .op = pattern});
  if (tasks.empty()) tasks = draft.select({.gpu = true, .layer = pattern});
  if (tasks.empty()) {
    return fail(ErrorCode::kDeclined, fmt::format("no task, operation or layer matches '{}'", pattern));
  }
  draft.scale(tasks, parameters.number("x"));
  return {};
}

WhatIf duration_whatif() {
  return {.name = "duration",
          .about = "selected tasks take x times as long",
          .parameters =
              {{"select", "glob over kernel names, else operations, else layers", "", {}, ParameterType::kText, true},
               {"x", "factor on their time", "", {}, ParameterType::kNumber, true, -1e-9}},
          .assumes = "nothing else changes",
          .source = "Daydream's Shrink/Scale",
          .not_modelled = {},
          .needs = {},
          .changes = Changes::kCosts,
          .parts = {.memory = Part::kUnchanged},
          .code = {},
          .validated = true,
          .apply = apply_duration};
}

const Registered kRegistered(duration_whatif);

}  // namespace

}  // namespace foretrace::whatif
