#include "whatif/job/nearest_network.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "whatif/job/network_costs.hpp"

namespace foretrace::whatif {
namespace {

// The recorded transfers with what each of their kernels carries. Kernels of a step carry few distinct things.
class Recording {
 public:
  Recording(const trace::Trace& trace, const TransferTimes& recorded) {
    const auto groups = ranks::process_groups(trace);
    std::map<std::tuple<ranks::CollectiveKind, std::int64_t, std::vector<std::int64_t>>, std::size_t> known;
    for (const ranks::Operation& op : ranks::operations_of(trace, trace.distributed.rank)) {
      const auto time = recorded.find(op.event);
      if (time == recorded.end() || time->second <= 0) continue;
      std::vector<std::int64_t> members = members_of(op, groups, trace);
      const auto [at, added] = known.try_emplace({op.kind, op.bytes, members}, operations_.size());
      if (added) operations_.emplace_back(op, std::move(members));
      Kernel& kernel = kernels_[op.event];
      kernel.ns = time->second;
      kernel.carries.push_back(at->second);
    }
  }

  // Infinite where the network says nothing of them.
  [[nodiscard]] double distance(const PlacedNetwork& network) const {
    std::vector<std::optional<hardware::CollectiveCost>> costs;
    costs.reserve(operations_.size());
    for (const auto& [operation, members] : operations_) costs.push_back(network.cost(operation, members));
    double sum = 0, weights = 0;
    for (const auto& [event, kernel] : kernels_) {
      double ns = 0;
      for (const std::size_t what : kernel.carries) {
        if (costs[what]) ns += static_cast<double>(costs[what]->ns);
      }
      if (ns <= 0) continue;
      const double off = std::log(kernel.ns / ns);
      sum += kernel.ns * off * off;
      weights += kernel.ns;
    }
    return weights > 0 ? sum / weights : std::numeric_limits<double>::infinity();
  }

 private:
  struct Kernel {
    double ns = 0;
    std::vector<std::size_t> carries;  // places in operations_: a kernel may hold several messages
  };
  std::vector<std::pair<ranks::Operation, std::vector<std::int64_t>>> operations_;
  std::map<std::uint32_t, Kernel> kernels_;  // in one order: sums do not depend on a hash
};

}  // namespace

NetworkChoice nearest_network(const trace::Trace& trace, const TransferTimes& recorded,
                              const hardware::Device& device) {
  const Recording recording(trace, recorded);
  std::vector<NetworkChoice> candidates{{.fabric = usual_fabric(device)}};
  for (const int gpus_per_node : {0, 1}) {
    for (const hardware::Fabric& f : hardware::fabrics()) {
      candidates.push_back({.fabric = f.name, .gpus_per_node = gpus_per_node});
    }
  }
  NetworkChoice nearest = candidates.front();
  double least = std::numeric_limits<double>::infinity();
  for (NetworkChoice& candidate : candidates) {
    const Result<PlacedNetwork> network = PlacedNetwork::make(candidate, device);
    if (!network) continue;
    if (const double distance = recording.distance(*network); distance < least) {
      least = distance;
      nearest = std::move(candidate);
    }
  }
  return nearest;
}

std::string in_words(const NetworkChoice& network) {
  return network.fabric + (network.gpus_per_node == 1 ? " with one GPU in a node" : "");
}

}  // namespace foretrace::whatif
