#pragma once
// In which order the thread that trains sends P3's slices, and where in the step. It sends in the hook of a gradient, while it waits
// for the end of backward, and before each layer of the next forward pass, where it sends what that layer still lacks.

#include <cstdint>
#include <vector>

#include "foretrace/graph/graph.hpp"

namespace foretrace::whatif {

/// A gradient and its slices, in the order of the backward pass.
struct Outgoing {
  Ns hook = 0;              ///< when its hook runs
  Ns ready = 0;             ///< when the GPU has computed it
  Ns passes = 0;            ///< when its slices get through: behind what shares a launch queue with them
  Ns exchange = 0;          ///< of one slice, with the network for itself
  std::uint32_t layer = 0;  ///< the forward pass needs those of lower numbers first
  std::uint32_t slices = 1;
};

struct SentSlice {
  enum Where : std::uint8_t { kInHook, kBehindBackward, kBeforeLayer };
  std::uint32_t gradient = 0;
  Where where = kBeforeLayer;
  std::uint32_t hook = 0;  ///< kInHook: the gradient whose hook sends it
};

/// No more slices than these are under way.
inline constexpr std::size_t kUnderWay = 2;

/// `launched`, `computed`: when the CPU and the GPU are through with backward; `send`: CPU time of a slice. Of the slices that are
/// there the one that forward needs first goes first; without `priorities` the one that was there first.
std::vector<SentSlice> sends_of_training_thread(const std::vector<Outgoing>& gradients, Ns launched, Ns computed,
                                                Ns send, bool priorities);

}  // namespace foretrace::whatif
