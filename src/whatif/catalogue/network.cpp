#include <fmt/format.h>

#include "foretrace/whatif/parallel.hpp"
#include "whatif/catalogue/also_written.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/job/network_costs.hpp"
#include "whatif/model/whole_number.hpp"

namespace foretrace::whatif {
namespace {

constexpr const char* kUsual = "usual";

Status check_fabric(const std::string& name) {
  if (name == kUsual) return {};
  FORETRACE_TRY_VOID(hardware::fabric_from(name));
  return {};
}

Result<PlacedNetwork> network(const Model& model, const std::string& name, const Parameters& p,
                              std::string_view nodes) {
  return PlacedNetwork::make(name == kUsual ? usual_fabric(model.device) : name, static_cast<int>(p.number(nodes)),
                             model.device);
}

Status apply_network(Model& model, Draft& draft, const Parameters& p) {
  const Selection collectives = draft.select({.kind = TaskKind::kCollective});
  if (collectives.empty()) return fail(ErrorCode::kDeclined, "the rank does not communicate");
  if (!model.transfers_only) {
    return needs_a_job("one rank's trace does not show how long its collectives waited for others");
  }
  FORETRACE_TRY(const PlacedNetwork here, network(model, p.text("was"), p, "was_gpus_per_node"));
  FORETRACE_TRY(const PlacedNetwork there, network(model, p.text("fabric"), p, "gpus_per_node"));
  const auto times = network_times(*model.trace, here, there);
  std::size_t unknown = 0;
  for (const std::uint32_t t : collectives) {
    const auto known = model.graph.event[t].valid() ? times.find(model.graph.event[t].value) : times.end();
    if (known == times.end()) {
      ++unknown;
      continue;
    }
    const double factor = known->second.factor(static_cast<double>(model.graph.cost[t]));
    if (factor != 1) draft.scale({t}, factor);
  }
  if (unknown == collectives.size()) return fail(ErrorCode::kDeclined, "the trace shows no size of any collective");
  if (unknown > 0) {
    model.not_modelled.push_back(fmt::format("{} of {} collectives keep their time: their size or ranks are unknown",
                                             unknown, collectives.size()));
  }
  if (p.text("was") == kUsual) {
    model.not_modelled.push_back(
        fmt::format("the network of the recording was not named (was=): {} assumed", usual_fabric(model.device)));
  }
  return {};
}

Parameter nodes(std::string name, std::string about) {
  return {.name = std::move(name),
          .about = std::move(about),
          .default_value = "0",
          .type = ParameterType::kNumber,
          .minimum = -1,
          .check = whole_number<kMostWorkers>};
}

Parameter fabric(std::string name, std::string about) {
  return {.name = std::move(name), .about = std::move(about), .default_value = kUsual, .check = check_fabric};
}

const Registered kRegistered(
    {.name = "network",
     .about = "the ranks of a job on another network, or in other nodes",
     .parameters = {fabric("fabric", "a name of `list fabrics`, or a file; default: this GPU's typical node"),
                    nodes("gpus_per_node", "ranks that share a node, counted from rank 0; default: the fabric's"),
                    fabric("was", "the network the job was recorded on, in the same way"),
                    nodes("was_gpus_per_node", "ranks that shared a node in the recording; default: the fabric's")},
     .assumes =
         "what the recording's network explains of a collective's time follows the models of both; the rest stays",
     .source = "dPRO; NCCL's algorithms",
     .not_modelled = "other traffic on the network",
     .needs = {Need::kCommunication},
     .changes = Changes::kNetwork,
     .code = "another network, or another order of hosts in the launcher",
     .effort = Effort::kWork,
     .stage = Stage::kRuntime,
     .apply = apply_network});
const AlsoWritten kByFabric("fabric=", "network:fabric=");

}  // namespace
}  // namespace foretrace::whatif
