#pragma once
// The groups of a plan on the levels of a network. Ranks that exchange most are neighbours: tensor parallel innermost, then
// context, data parallel (with experts inside), the pipeline outermost.
//
//   Groups groups(network);
//   groups.cost(Collective::kAllReduce, bytes, 16, 8).ns;      // 16 ranks, 8 GPUs apart
//
// A group whose neighbours are `apart` GPUs from each other has gpus_per_node / apart members in a node, and shares the node's
// ports with the other groups of its kind.

#include <map>
#include <memory>

#include "foretrace/whatif/parallel.hpp"
#include "hardware/collective.hpp"

namespace foretrace::plan {

class Groups {
 public:
  explicit Groups(whatif::Network network);

  [[nodiscard]] hardware::CollectiveCost cost(hardware::Collective kind, double bytes, std::int64_t ranks,
                                              std::int64_t apart);
  /// What collectives cost in groups with this distance between neighbours.
  std::shared_ptr<const hardware::CollectiveModel> model(std::int64_t apart);
  [[nodiscard]] int members_in_node(std::int64_t apart) const;
  [[nodiscard]] const whatif::Network& network() const { return network_; }

 private:
  whatif::Network network_;
  std::map<int, std::shared_ptr<const hardware::CollectiveModel>> by_members_;
};

}  // namespace foretrace::plan
