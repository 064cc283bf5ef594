#pragma once
// What no changed step can take less than. Where a change touches no kernel, that is the time in which the trace shows the GPU busy. Else
// every stream takes at least as long as its kernels do at the GPU's peak rates: their FLOP, their bytes, the weights they read, and for
// copies from or to the host the link; kernels that were left alone as long as in the trace. A bound is an alarm: an answer that needs it
// shows an error of a what-if, or streams that overlap more in the simulation than they did in the trace.
//
//   const Bounds bounds(base);
//   bounds.of(changed).step;      // ns, of the simulated step

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

class Bounds {
 public:
  /// `base` is the model before any change.
  explicit Bounds(const Model& base);

  /// Of the base with changes applied; `decided` is left to the caller.
  [[nodiscard]] Bound of(const Model& changed) const;

 private:
  /// A GPU task of the trace, by when it began.
  struct Recorded {
    Ns begin, cost;
    std::uint32_t event;
    bool kernel;  ///< no copy and no fill
  };

  [[nodiscard]] std::uint32_t place_of(EventId event) const;
  [[nodiscard]] Bound busiest_stream(const Model& changed, const std::vector<std::uint32_t>& other) const;

  std::vector<Recorded> recorded_;         ///< sorted by begin
  std::vector<std::uint32_t> by_event_;    ///< places in recorded_, sorted by event
  /// By the event of an operation that was faster than its description allows: its measured time over its floor.
  std::unordered_map<std::uint32_t, double> faster_than_described_;
};

}  // namespace foretrace::whatif
