#include "whatif/catalogue/catalogue.hpp"
#include "whatif/rewrite/scaling.hpp"

namespace foretrace::whatif {
namespace {

Status apply_cpu(Model& m, Draft& draft, const Parameters& parameters) {
  scale_host(m, draft, 1 / parameters.number("x"));
  return {};
}

const Registered kRegistered(
    {.name = "cpu",
     .about = "a host whose CPU is x times as fast",
     .parameters = {{.name = "x", .about = "how many times as fast", .type = ParameterType::kNumber, .required = true}},
     .assumes = "all CPU work speeds up alike",
     .source = "arithmetic",
     .not_modelled = "faster copies from host memory",
     .changes = Changes::kHost,
     .stage = Stage::kRuntime,
     .validated = true,
     .definition = "CPU time is divided by x; how fast another host is, `foretrace calibrate` measures there",
     .apply = apply_cpu});

}  // namespace
}  // namespace foretrace::whatif
