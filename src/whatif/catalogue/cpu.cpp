#include "whatif/catalogue/catalogue.hpp"
#include "whatif/rewrite/host_speed.hpp"

namespace foretrace::whatif {

namespace {

Status apply_cpu(Model& m, Draft& draft, const Parameters& parameters) {
  scale_host(m, draft, 1 / parameters.number("x"));
  return {};
}

WhatIf cpu_whatif() {
  return {.name = "cpu",
          .about = "a host whose CPU is x times as fast",
          .parameters = {{"x", "how many times as fast", "", {}, ParameterType::kNumber, true}},
          .assumes = "all CPU work speeds up alike",
          .source = "arithmetic",
          .not_modelled = "faster copies from host memory",
          .needs = {},
          .changes = Changes::kHost,
          .parts = {.memory = Part::kUnchanged},
          .code = {},
          .stage = Stage::kRuntime,
          .validated = false,
          .apply = apply_cpu};
}

const Registered kRegistered(cpu_whatif);

}  // namespace

}  // namespace foretrace::whatif
