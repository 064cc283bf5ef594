#include "whatif/job/network_costs.hpp"

#include <algorithm>
#include <numeric>

namespace foretrace::whatif {

Result<PlacedNetwork> PlacedNetwork::make(NetworkChoice choice, const hardware::Device& device) {
  PlacedNetwork out;
  FORETRACE_TRY(const Network network, network_of(choice, device));
  out.per_node_ = std::max(1, network.gpus_per_node);
  out.device_ = device;
  if (!choice.collectives.empty()) out.measured_ = network.collectives;
  out.choice_ = std::move(choice);
  return out;
}

const hardware::CollectiveModel* PlacedNetwork::with_per_node(int members_per_node) const {
  if (measured_ != nullptr) return measured_.get();
  auto& known = models_[members_per_node];
  if (known == nullptr) {
    NetworkChoice choice = choice_;
    choice.gpus_per_node = members_per_node;
    const Result<Network> network = network_of(choice, device_);
    if (!network) return nullptr;
    known = network->collectives;
  }
  return known.get();
}

std::optional<hardware::CollectiveCost> PlacedNetwork::cost(const ranks::Operation& operation,
                                                            const std::vector<std::int64_t>& members) const {
  const std::optional<hardware::Collective> kind = hardware::parse_collective(ranks::to_string(operation.kind));
  if (!kind || operation.bytes <= 0 || members.size() < 2) return std::nullopt;
  // Of a group whose members are far apart in number, fewer share a node than there are GPUs in it.
  std::map<std::int64_t, int> in_node;
  for (const std::int64_t rank : members) ++in_node[rank / per_node_];
  int most = 0;
  for (const auto& [node, count] : in_node) most = std::max(most, count);
  const hardware::CollectiveModel* model = with_per_node(most);
  if (model == nullptr) return std::nullopt;
  return model->cost({*kind, static_cast<double>(operation.bytes), static_cast<int>(members.size())});
}

double PlacedNetwork::call(const ranks::Operation& operation, const std::vector<std::int64_t>& members) const {
  if (measured_ == nullptr) return 0;
  ranks::Operation smallest = operation;
  smallest.bytes = 1;
  return static_cast<double>(cost(smallest, members).value_or(hardware::CollectiveCost{}).ns);
}

std::vector<std::int64_t> members_of(const ranks::Operation& op,
                                     const std::map<std::string, ranks::ProcessGroup, std::less<>>& groups,
                                     const trace::Trace& trace) {
  if (op.from >= 0 && op.to >= 0) return {op.from, op.to};
  std::vector<std::int64_t> listed = ranks::listed_ranks(op.members);
  if (listed.size() > 1) return listed;
  if (const auto group = groups.find(op.group); group != groups.end() && group->second.ranks.size() > 1) {
    return group->second.ranks;
  }
  const std::int64_t size = op.size > 0 ? op.size : trace.distributed.world_size;
  if (size < 2 || size > kMostWorkers) return {};
  std::vector<std::int64_t> neighbours(static_cast<std::size_t>(size));
  std::iota(neighbours.begin(), neighbours.end(), 0);
  return neighbours;
}

double NetworkTimes::factor(double recorded, bool exact) const {
  if (recorded <= 0) return 1;
  if (here <= 0) return there / recorded;
  if (exact && recorded >= here) return there / here;
  double links = here, others = there;
  if (recorded < here && here_call > 0) {
    const double no_transfer = std::min(1.0, (here - recorded) / here_call);
    links -= no_transfer * here_call;
    others -= no_transfer * there_call;
  }
  const double explained = std::min(recorded, links);
  return (explained * others / links + recorded - explained) / recorded;
}

std::unordered_map<std::uint32_t, NetworkTimes> network_times(const trace::Trace& trace, const PlacedNetwork* here,
                                                              const PlacedNetwork& there) {
  const auto groups = ranks::process_groups(trace);
  std::unordered_map<std::uint32_t, NetworkTimes> out;
  for (const ranks::Operation& op : ranks::operations_of(trace, trace.distributed.rank)) {
    const std::vector<std::int64_t> members = members_of(op, groups, trace);
    const std::optional<hardware::CollectiveCost> then = there.cost(op, members);
    if (!then) continue;
    std::optional<hardware::CollectiveCost> now;
    if (here != nullptr) {
      now = here->cost(op, members);
      if (!now || now->ns <= 0) continue;
    }
    NetworkTimes& kernel = out[op.event];  // which may hold several messages
    if (now) kernel.here += static_cast<double>(now->ns);
    kernel.there += static_cast<double>(then->ns);
    kernel.channels = std::max(kernel.channels, then->channels);
    kernel.there_call += there.call(op, members);
    if (here != nullptr) kernel.here_call += here->call(op, members);
  }
  return out;
}

}  // namespace foretrace::whatif
