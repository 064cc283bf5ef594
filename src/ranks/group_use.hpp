#pragma once
// What a process group communicates in one step, and where in the step: evidence for its purpose.

#include <cstdint>
#include <vector>

#include "ranks/collectives.hpp"
#include "ranks/program_order.hpp"

namespace foretrace::ranks {

/// Activations pass in forward and in backward alike, gradients in backward alone; a tenth is far from both.
inline constexpr double kActivationShare = 0.1;

/// Bytes over all ranks; operations, where sizes are unknown.
struct Volume {
  double forward = 0, backward = 0, after = 0;  ///< `after`: in the optimizer, or where no phase shows
  [[nodiscard]] double total() const { return forward + backward + after; }
  [[nodiscard]] bool carries_activations() const { return total() > 0 && forward > kActivationShare * total(); }
};

struct GroupUse {
  Volume reduced;             ///< all-reduce, reduce
  Volume gathered;            ///< all-gather, broadcast
  Volume scattered;           ///< reduce-scatter
  Volume exchanged;           ///< all-to-all
  Volume sent;                ///< sends
  double to_attention = 0;    ///< of what is gathered in forward, directly before attention
  std::uint64_t cores = 0;    ///< stretches of forward between two exchanges that hold attention and no weights
  std::uint64_t lookups = 0;  ///< exchanges of forward directly behind lookups of embeddings
  [[nodiscard]] double total() const {
    return reduced.total() + gathered.total() + scattered.total() + exchanged.total() + sent.total();
  }
};

/// Per group of the matching.
std::vector<GroupUse> group_uses(const Matching& matching, const ProgramOrder& order);

/// The part of a use an operation belongs to.
Volume& volume_of(GroupUse& use, CollectiveKind kind);

}  // namespace foretrace::ranks
