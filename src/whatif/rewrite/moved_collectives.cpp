#include "whatif/rewrite/moved_collectives.hpp"

#include <cmath>

#include "foretrace/whatif/parallel.hpp"
#include "hardware/collective.hpp"
#include "ranks/collectives.hpp"

namespace foretrace::whatif {

namespace {

using hardware::Collective;
using ranks::CollectiveKind;

std::shared_ptr<const hardware::CollectiveModel> usual_node(const hardware::Device& device) {
  const Result<Network> network = network_of({.fabric = usual_fabric(device)}, device);
  return network ? network->collectives : nullptr;
}

std::optional<Collective> kind_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return Collective::kAllReduce;
    case CollectiveKind::kAllGather:
      return Collective::kAllGather;
    case CollectiveKind::kReduceScatter:
      return Collective::kReduceScatter;
    case CollectiveKind::kAllToAll:
      return Collective::kAllToAll;
    case CollectiveKind::kBroadcast:
      return Collective::kBroadcast;
    case CollectiveKind::kScatter:
      return Collective::kScatter;
    case CollectiveKind::kReduce:
      return Collective::kReduce;
    case CollectiveKind::kGather:
      return Collective::kGather;
    case CollectiveKind::kSendRecv:
      return Collective::kSendRecv;
    case CollectiveKind::kBarrier:
    case CollectiveKind::kOther:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

MovedCollectives::MovedCollectives(const hardware::Device& from, const hardware::Device& to)
    : here_(usual_node(from)), there_(usual_node(to)) {}

std::optional<MovedCollectives::Moved> MovedCollectives::move(const Model& model, std::uint32_t task,
                                                              double measured_ns) const {
  const EventId event = model.graph.event[task];
  if (here_ == nullptr || there_ == nullptr || model.trace == nullptr || !event.valid()) return std::nullopt;
  const ranks::RecordedCollective recorded =
      ranks::recorded_collective(*model.trace, static_cast<std::uint32_t>(event.index()));
  const std::optional<Collective> kind = kind_of(recorded.kind);
  const std::int64_t ranks = recorded.ranks > 0 ? recorded.ranks : model.trace->distributed.world_size;
  if (!kind || recorded.bytes <= 0 || ranks < 2 || ranks > kNode) return std::nullopt;
  const hardware::CollectiveCall call{*kind, static_cast<double>(recorded.bytes), static_cast<int>(ranks)};
  const hardware::CollectiveCost cost_here = here_->cost(call), cost_there = there_->cost(call);
  const auto here = static_cast<double>(cost_here.ns);
  const auto there = static_cast<double>(cost_there.ns);
  if (!(here > 0) || !(there > 0)) return std::nullopt;
  return Moved{measured_ns <= here ? measured_ns * there / here : measured_ns - here + there,
               std::hypot(cost_here.sigma, cost_there.sigma)};
}

}  // namespace foretrace::whatif
