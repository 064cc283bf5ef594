#pragma once
// Measured collectives of a step on nodes of another GPU.

#include <memory>
#include <optional>

#include "foretrace/hardware/device.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "hardware/collective.hpp"

namespace foretrace::whatif {

/// What links inside the node that a GPU is usually sold in explain of a collective's time follows those of the other GPU's node; the rest
/// (waiting for other ranks, a slower network) stays as it was. Continuous, and grows with the measured time.
class MovedCollectives {
 public:
  MovedCollectives(const hardware::Device& from, const hardware::Device& to);
  struct Moved {
    double ns = 0;  ///< the time there
    double sigma =
        0;  ///< of its logarithm: what the models of both nodes' links are off by. Nothing was measured before and after a move
  };
  /// Nothing where the trace shows neither size nor ranks, or where the group is larger than a node: a network
  /// between nodes belongs to the machine, not to its GPUs.
  [[nodiscard]] std::optional<Moved> move(const Model& model, std::uint32_t task, double measured_ns) const;

  static constexpr std::int64_t kNode = 8;  ///< GPUs of the nodes meant here

 private:
  std::shared_ptr<const hardware::CollectiveModel> here_, there_;
};

}  // namespace foretrace::whatif
