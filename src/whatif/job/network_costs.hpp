#pragma once
// What the collectives of a rank cost on another network, relative to the one they ran on.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "foretrace/whatif/model.hpp"
#include "hardware/collective.hpp"
#include "ranks/operations.hpp"

namespace foretrace::whatif {

/// A network and where ranks sit on it: rank r is in node r / gpus_per_node.
class PlacedNetwork {
 public:
  /// `gpus_per_node`: 0: as many as the fabric says.
  static Result<PlacedNetwork> make(std::string fabric, int gpus_per_node, const hardware::Device& device);
  /// Nanoseconds; nothing where the kind of the operation has no cost. `members`: ranks of the group, known or assumed.
  [[nodiscard]] std::optional<double> cost(const ranks::Operation& operation,
                                           const std::vector<std::int64_t>& members) const;

 private:
  [[nodiscard]] const hardware::CollectiveModel* with_per_node(int members_per_node) const;

  std::string fabric_;
  int per_node_ = 0;
  hardware::Device device_;
  mutable std::map<int, std::shared_ptr<const hardware::CollectiveModel>> models_;
};

/// What the models of both networks say of one kernel of communication, in nanoseconds.
struct NetworkTimes {
  double here = 0, there = 0;
  /// A recorded transfer on the other network, over its time now. What the links of this one explain of it follows the model of
  /// the other one; the rest (an unnamed slower link, kernels that ran beside it) stays.
  [[nodiscard]] double factor(double recorded) const;
};

/// By event of the kernel. Kernels whose size or group is unknown are left out.
std::unordered_map<std::uint32_t, NetworkTimes> network_times(const trace::Trace& trace, const PlacedNetwork& here,
                                                              const PlacedNetwork& there);

}  // namespace foretrace::whatif
