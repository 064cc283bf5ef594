#include <fmt/format.h>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/rewrite/collective_transfer.hpp"

namespace foretrace::whatif {
namespace {

constexpr std::string_view kUnknownSizes =
    "their sizes or ranks are not in the trace, or they span several nodes, so that transfer cannot be separated from "
    "waiting for other ranks";

Status apply_bandwidth(Model& model, Draft& draft, const Parameters& parameters) {
  Query communication;
  communication.kind = TaskKind::kCollective;
  const Selection collectives = draft.select(communication);
  if (collectives.empty()) {
    return fail(ErrorCode::kDeclined,
                "the step has no communication; stack it behind ddp, or use a trace of several workers");
  }
  const double left = 1 / parameters.number("x");
  const CollectiveTransfers transfers(*model.trace, model.device);
  std::size_t unknown = 0, waiting = 0;
  for (const std::uint32_t t : collectives) {
    if (model.transfers_only || model.graph.origin[t] != graph::Origin::kMeasured) {
      draft.scale({t}, left);
      continue;
    }
    const std::optional<Ns> moves = transfers.of(model.graph, t);
    if (!moves) {
      ++unknown;
      continue;
    }
    waiting += *moves < model.graph.cost[t] ? 1u : 0u;
    const auto cost = static_cast<double>(model.graph.cost[t]);
    if (cost > 0) draft.scale({t}, 1 - static_cast<double>(*moves) / cost * (1 - left));
  }
  if (unknown == collectives.size()) return fail(ErrorCode::kDeclined, std::string(kUnknownSizes));
  if (unknown > 0) {
    model.not_modelled.push_back(
        fmt::format("{} of {} collectives keep their time: {}", unknown, collectives.size(), kUnknownSizes));
  }
  if (waiting > 0) {
    model.not_modelled.emplace_back(
        "only what the links of a typical node need for a collective's size is scaled; the rest of its time waits for "
        "other ranks and stays as recorded");
  }
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
