#pragma once
// Measured collectives of a step on nodes of another GPU.

#include <memory>
#include <optional>

#include "foretrace/hardware/collective.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// What links inside the node that a GPU is usually sold in explain of a collective's time follows those of the other GPU's node; the rest
/// (waiting for other ranks, a slower network) stays as it was. Continuous, and grows with the measured time.
class MovedCollectives {
 public:
  MovedCollectives(const hardware::Device& from, const hardware::Device& to);
  /// The time there, in ns. Nothing where the trace tells neither size nor ranks, or where the group is larger than a node: a network
  /// between nodes belongs to the machine, not to its GPUs.
  [[nodiscard]] std::optional<double> ns(const Model& model, std::uint32_t task, double measured_ns) const;

  /// Spread of log time: fabrics of their own files, and nothing measured before and after a move.
  static constexpr double kSigma = 0.3;
  static constexpr std::int64_t kNode = 8;  ///< GPUs of the nodes meant here

 private:
  std::shared_ptr<const hardware::CollectiveModel> here_, there_;
};

}  // namespace foretrace::whatif
