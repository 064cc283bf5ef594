#include <fmt/format.h>

#include <optional>
#include <vector>

#include "foretrace/whatif/parallel.hpp"
#include "whatif/catalogue/also_written.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/job/nearest_network.hpp"
#include "whatif/job/network_costs.hpp"
#include "whatif/job/overlapping_kernels.hpp"
#include "whatif/model/whole_number.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {
namespace {

// Names of the parameters that say which network it is, and where ranks sit on it.
struct Names {
  const char* fabric;
  const char* collectives;
  const char* tag;
  const char* nodes;
};
constexpr Names kThere{"fabric", "collectives", "collectives_tag", "gpus_per_node"};
constexpr Names kHere{"was", "was_collectives", "was_collectives_tag", "was_gpus_per_node"};

Result<PlacedNetwork> network(const Model& model, const Parameters& p, const Names& names) {
  NetworkChoice choice{.collectives = p.text(names.collectives),
                       .collectives_tag = p.text(names.tag),
                       .gpus_per_node = static_cast<int>(p.number(names.nodes))};
  if (choice.collectives.empty()) {
    const std::string& name = p.text(names.fabric);
    choice.fabric = name == kDefaultFabric ? usual_fabric(model.device) : name;
  }
  return PlacedNetwork::make(std::move(choice), model.device);
}

bool names_recording(const Parameters& p) {
  return p.text(kHere.fabric) != kDefaultFabric || !p.text(kHere.collectives).empty();
}

TransferTimes recorded_transfers(const Model& model, const Selection& collectives) {
  TransferTimes out;
  for (const std::uint32_t t : collectives) {
    if (model.graph.event[t].valid()) out[model.graph.event[t].value] = static_cast<double>(model.graph.cost[t]);
  }
  return out;
}

// The recording's network: the one named, or the built-in one whose times are nearest; none where the other one was measured and this one was not named, since a model of a network that may
// be another one would say less of a recorded transfer than the transfer itself.
Result<std::optional<PlacedNetwork>> network_of_recording(Model& model, const Parameters& p,
                                                          const Selection& collectives) {
  const bool named = names_recording(p);
  if (!named && !p.text(kThere.collectives).empty()) {
    model.not_modelled.emplace_back(
        "the network of the recording was not named (was=, was_collectives=): measured times replace the recorded "
        "transfers, and the slowdown by concurrent kernels is left out");
    return std::optional<PlacedNetwork>();
  }
  if (!named) {
    NetworkChoice nearest = nearest_network(*model.trace, recorded_transfers(model, collectives), model.device);
    model.not_modelled.push_back(fmt::format(
        "the network of the recording was not named (was=): its transfers are nearest to {}", in_words(nearest)));
    FORETRACE_TRY(PlacedNetwork here, PlacedNetwork::make(std::move(nearest), model.device));
    return std::optional(std::move(here));
  }
  FORETRACE_TRY(PlacedNetwork here, network(model, p, kHere));
  return std::optional(std::move(here));
}

Status apply_network(Model& model, Draft& draft, const Parameters& p) {
  const Selection collectives = draft.select({.kind = TaskKind::kCollective});
  if (collectives.empty()) return fail(ErrorCode::kDeclined, "the rank does not communicate");
  if (!model.transfers_only && !names_recording(p)) {
    return needs_a_job(
        "one rank's trace does not show how long its collectives waited for others, and the network of the recording "
        "(was=, was_collectives=), from which their transfer time would follow, is not named");
  }
  FORETRACE_TRY(const std::optional<PlacedNetwork> here, network_of_recording(model, p, collectives));
  FORETRACE_TRY(const PlacedNetwork there, network(model, p, kThere));
  if (p.text(kThere.fabric) == kDefaultFabric && p.text(kThere.collectives).empty()) {
    model.not_modelled.push_back(fmt::format("the network was not named: {} assumed", usual_fabric(model.device)));
  }
  const auto times = network_times(*model.trace, here ? &*here : nullptr, there);
  const bool measured = !p.text(kHere.collectives).empty() && !p.text(kThere.collectives).empty();
  std::size_t unknown = 0;
  std::vector<OtherTransfer> others;
  for (const std::uint32_t t : collectives) {
    const auto known = model.graph.event[t].valid() ? times.find(model.graph.event[t].value) : times.end();
    if (known == times.end()) {
      ++unknown;
      continue;
    }
    const double factor =
        known->second.factor(static_cast<double>(model.graph.cost[t]), measured && model.transfers_only);
    if (factor == 1) continue;
    draft.scale({t}, factor);
    others.push_back({t, draft.cost(t), known->second.channels});
  }
  if (!model.transfers_only) {
    model.not_modelled.emplace_back(
        "the part of a collective's time that the named network does not explain is taken as waiting and stays");
  }
  if (unknown == collectives.size()) return fail(ErrorCode::kDeclined, "the trace shows no size of any collective");
  if (unknown > 0) {
    model.not_modelled.push_back(fmt::format("{} of {} collectives keep their time: their size or ranks are unknown",
                                             unknown, collectives.size()));
  }
  if (!others.empty()) slow_overlapping_kernels(model, draft, others);
  return {};
}

// Those of every scheme, and the same of the recording.
std::vector<Parameter> parameters() {
  const auto file = [](const char* name, const char* about) {
    return Parameter{.name = name, .about = about, .default_value = ""};
  };
  std::vector<Parameter> all = network_parameters();
  all.push_back(
      {.name = kHere.fabric,
       .about = "the network the job was recorded on, in the same way; default: the one whose times are nearest to the "
                "recorded ones",
       .default_value = kDefaultFabric,
       .check = check_fabric});
  all.push_back(file(kHere.collectives, "a file of collectives measured on the network of the recording"));
  all.push_back(file(kHere.tag, "the rows of that file with this tag"));
  all.push_back({.name = kHere.nodes,
                 .about = "GPUs that shared a node in the recording; default: the fabric's",
                 .default_value = "0",
                 .type = ParameterType::kNumber,
                 .minimum = -1,
                 .check = whole_number<kMostWorkers>});
  return all;
}

Status check(const Parameters& p) {
  for (const Names& names : {kThere, kHere}) {
    if (!p.text(names.tag).empty() && p.text(names.collectives).empty()) {
      return fail(ErrorCode::kUsage, fmt::format("{} without {}", names.tag, names.collectives),
                  "name the file of measured collectives");
    }
    if (p.number(names.nodes) > kMostWorkers) {
      return fail(ErrorCode::kUsage, fmt::format("{} must be a whole number from 0 to {}", names.nodes, kMostWorkers));
    }
  }
  return {};
}

const Registered kRegistered(
    {.name = "network",
     .about = "the ranks of a job on another network, or in other nodes",
     .parameters = parameters(),
     .assumes =
         "what the recording's network explains of a collective's time follows the times of both; the rest stays",
     .source = "dPRO; NCCL's algorithms",
     .not_modelled = "other traffic on the network",
     .needs = {Need::kCommunication},
     .changes = Changes::kNetwork,
     .code = "another network, or another order of hosts in the launcher",
     .effort = Effort::kWork,
     .stage = Stage::kRuntime,
     .apply = apply_network,
     .check = check});
const AlsoWritten kByFabric("fabric=", "network:fabric=");

}  // namespace
}  // namespace foretrace::whatif
