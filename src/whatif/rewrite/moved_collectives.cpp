#include "whatif/rewrite/moved_collectives.hpp"

#include <cmath>

#include "foretrace/whatif/parallel.hpp"
#include "hardware/collective.hpp"
#include "ranks/collectives.hpp"

namespace foretrace::whatif {

namespace {

std::shared_ptr<const hardware::CollectiveModel> typical_node(const hardware::Device& device) {
  const Result<Network> network = network_of({.fabric = usual_fabric(device)}, device);
  return network ? network->collectives : nullptr;
}

}  // namespace

MovedCollectives::MovedCollectives(const hardware::Device& from, const hardware::Device& to)
    : here_(typical_node(from)), there_(typical_node(to)) {}

std::optional<MovedCollectives::Moved> MovedCollectives::move(const Model& model, std::uint32_t task,
                                                              double measured_ns) const {
  const EventId event = model.graph.event[task];
  if (here_ == nullptr || there_ == nullptr || model.trace == nullptr || !event.valid()) return std::nullopt;
  const ranks::RecordedCollective recorded =
      ranks::recorded_collective(*model.trace, static_cast<std::uint32_t>(event.index()));
  const std::optional<hardware::Collective> kind = hardware::parse_collective(ranks::to_string(recorded.kind));
  const std::int64_t ranks = recorded.ranks > 0 ? recorded.ranks : model.trace->distributed.world_size;
  if (!kind || recorded.bytes <= 0 || ranks < 2 || ranks > kNode) return std::nullopt;
  const hardware::CollectiveCall call{*kind, static_cast<double>(recorded.bytes), static_cast<int>(ranks)};
  const hardware::CollectiveCost cost_here = here_->cost(call), cost_there = there_->cost(call);
  const auto here = static_cast<double>(cost_here.ns);
  const auto there = static_cast<double>(cost_there.ns);
  if (!(here > 0) || !(there > 0)) return std::nullopt;
  // What exceeds the links' time waits for other ranks, unless the time is known to be without waits.
  return Moved{measured_ns <= here || model.transfers_only ? measured_ns * there / here : measured_ns - here + there,
               std::hypot(cost_here.sigma, cost_there.sigma)};
}

}  // namespace foretrace::whatif
