#pragma once
// Parameter servers: pushes to them, the sums they make, and what is pulled back.

#include <cstdint>

#include "hardware/collective.hpp"
#include "whatif/parallel/builder.hpp"

namespace foretrace::whatif {

struct Exchange {
  std::uint32_t push = kNone, sum = kNone, pull = kNone;
};

/// The servers of a job and the links to them. Workers do the same at the same time, and so do servers: one of each stands
/// for all.
class Servers {
 public:
  Servers(Builder& builder, bool own_network);

  [[nodiscard]] bool on_workers() const { return b_.how.servers == 0; }

  Exchange exchange(double bytes) { return on_workers() ? with_neighbours(bytes) : with_servers(bytes); }
  /// What an exchange takes that has the network for itself.
  [[nodiscard]] Ns time_of(double bytes) const;

 private:
  Exchange with_neighbours(double bytes);
  Exchange with_servers(double bytes);
  [[nodiscard]] hardware::CollectiveCost link_cost(double bytes, hardware::Collective kind) const;

  Builder& b_;
  std::uint32_t push_lane_ = kNone, pull_lane_ = kNone, sum_lane_ = kNone;
};

}  // namespace foretrace::whatif
