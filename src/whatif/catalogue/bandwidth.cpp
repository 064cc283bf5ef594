#include "whatif/catalogue/catalogue.hpp"

namespace foretrace::whatif {
namespace {

Status apply_bandwidth(Model& model, Draft& draft, const Parameters& parameters) {
  Query communication;
  communication.kind = TaskKind::kCollective;
  const Selection collectives = draft.select(communication);
  if (collectives.empty()) {
    return fail(ErrorCode::kDeclined,
                "the step has no communication; stack it behind ddp, or use a trace of several workers");
  }
  for (const std::uint32_t t : collectives) {
    if (model.graph.origin[t] == graph::Origin::kMeasured) {
      model.not_modelled.emplace_back("measured collectives include their waits for other ranks, which are scaled too");
      break;
    }
  }
  draft.scale(collectives, 1 / parameters.number("x"));
  return {};
}

const Registered kRegistered(
    {.name = "bandwidth",
     .about = "a network x times as fast",
     .parameters = {{.name = "x", .about = "factor", .type = ParameterType::kNumber, .required = true}},
     .assumes = "latency shrinks with it",
     .source = "Daydream",
     .needs = {Need::kCommunication},
     .changes = Changes::kNetwork,
     .code = "another network",
     .effort = Effort::kWork,
     .stage = Stage::kRuntime,
     .apply = apply_bandwidth});

}  // namespace
}  // namespace foretrace::whatif
