#include "plan/groups.hpp"

#include <algorithm>

namespace foretrace::plan {

Groups::Groups(whatif::Network network) : network_(std::move(network)) {}

int Groups::members_in_node(std::int64_t apart) const {
  return static_cast<int>(std::max<std::int64_t>(1, network_.gpus_per_node / std::max<std::int64_t>(1, apart)));
}

std::shared_ptr<const hardware::CollectiveModel> Groups::model(std::int64_t apart) {
  const int members = members_in_node(apart);
  const auto* fabric = dynamic_cast<const hardware::FabricCollectives*>(network_.collectives.get());
  if (fabric == nullptr || members == network_.gpus_per_node) return network_.collectives;
  auto& known = by_members_[members];
  if (known) return known;
  hardware::Fabric f = fabric->fabric();
  if (f.levels.size() < 2) return known = network_.collectives;
  const int sharing = network_.gpus_per_node / members;
  if (f.levels[1].per_node) f.levels[1].gbs /= sharing;
  f.gpus_per_node = members;
  if (members == 1) f.levels.erase(f.levels.begin());
  return known = std::make_shared<hardware::FabricCollectives>(std::move(f));
}

hardware::CollectiveCost Groups::cost(hardware::Collective kind, double bytes, std::int64_t ranks, std::int64_t apart) {
  if (ranks < 2 || bytes <= 0) return {};
  return model(apart)->cost({kind, bytes, static_cast<int>(ranks)});
}

}  // namespace foretrace::plan
