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
#include "foretrace/whatif/parallel.hpp"
#include "hardware/collective.hpp"
#include "ranks/operations.hpp"
#include "ranks/process_groups.hpp"

namespace foretrace::whatif {

/// A network and where ranks sit on it: rank r is in node r / gpus_per_node. Measured collectives are of the ranks as they sat.
class PlacedNetwork {
 public:
  /// `choice.gpus_per_node`: 0: as many as the fabric says.
  static Result<PlacedNetwork> make(NetworkChoice choice, const hardware::Device& device);
  /// Nothing where the kind of the operation has no cost. `members`: ranks of the group, known or assumed.
  [[nodiscard]] std::optional<hardware::CollectiveCost> cost(const ranks::Operation& operation,
                                                             const std::vector<std::int64_t>& members) const;
  /// Of measured collectives, what the smallest message takes: latency, and the call itself; 0 of a fabric.
  [[nodiscard]] double call(const ranks::Operation& operation, const std::vector<std::int64_t>& members) const;

 private:
  [[nodiscard]] const hardware::CollectiveModel* with_per_node(int members_per_node) const;

  NetworkChoice choice_;
  int per_node_ = 0;
  hardware::Device device_;
  std::shared_ptr<const hardware::CollectiveModel> measured_;
  mutable std::map<int, std::shared_ptr<const hardware::CollectiveModel>> models_;
};

/// The ranks of an operation: both ends of a message; of a group as the trace lists them, else neighbours by number. Empty: not known.
std::vector<std::int64_t> members_of(const ranks::Operation& operation,
                                     const std::map<std::string, ranks::ProcessGroup, std::less<>>& groups,
                                     const trace::Trace& trace);

/// What both networks take for one kernel of communication, in nanoseconds.
struct NetworkTimes {
  double here = 0;  ///< 0: the network of the trace is not known
  double there = 0;
  int channels = 0;                      ///< thread blocks on the other network
  double here_call = 0, there_call = 0;  ///< of that, what the smallest message took; 0: not measured
  /// A recorded transfer on the other network, over its time now. What the links of this one explain of it follows the other
  /// one; the rest (an unnamed slower link, kernels that ran at the same time) stays. Without a network here, all of it is replaced.
  /// Measured calls take the host's time too. Where the recorded kernel is shorter than the measured call, that much of a call is no
  /// transfer, and the same part of a call is none on the other network. `exact`: both networks were measured and `recorded` has no
  /// waiting: then the rest is what kernels next to the transfer cost it, in percent as much on the other network.
  [[nodiscard]] double factor(double recorded, bool exact = false) const;
};

/// By event of the kernel. Kernels whose size or group is unknown are left out. `here`: null: not known.
std::unordered_map<std::uint32_t, NetworkTimes> network_times(const trace::Trace& trace, const PlacedNetwork* here,
                                                              const PlacedNetwork& there);

}  // namespace foretrace::whatif
