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

const Registered kRegistered({.name = "duration",
                              .about = "selected tasks take x times as long",
                              .parameters = {{.name = "select",
                                              .about = "glob over kernel names, else operations, else layers",
                                              .required = true},
                                             {.name = "x",
                                              .about = "factor on their time",
                                              .type = ParameterType::kNumber,
                                              .required = true,
                                              .minimum = -1e-9}},
                              .assumes = "nothing else changes",
                              .source = "Daydream's Shrink/Scale",
                              .changes = Changes::kCosts,
                              .validated = true,
                              .definition = "the factor is the question, not the answer",
                              .apply = apply_duration});

}  // namespace
}  // namespace foretrace::whatif
