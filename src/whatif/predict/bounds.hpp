#pragma once
// Lower bounds of a changed step. Where a change affects no kernel, that is the time in which the trace shows the GPU busy. Else
// every stream takes at least as long as its kernels do at the GPU's peak rates: their FLOP, their bytes, the weights they read, and for
// copies from or to the host the link; kernels that were left alone as long as in the trace. A bound is an alarm: an answer that needs it
// shows an error in a what-if, or streams that overlap more in the simulation than they did in the trace.
//
//   const Bounds bounds(base, measured);
//   bounds.of(changed).step;      // ns

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

class Bounds {
 public:
  /// `base` is the model before any change; `measured` its step without the profiler, where known: the GPU is not busy for longer.
  Bounds(const Model& base, std::optional<Ns> measured) : Bounds(base, measured, true) {}

  /// Of the base with changes applied; `decided` is left to the caller. `real`: the measured step over the simulated one.
  [[nodiscard]] Bound of(const Model& changed, double real = 1) const;

 private:
  /// `collectives`: whether they keep the GPU busy for as long as recorded. In a job they wait for other ranks, who may come earlier.
  Bounds(const Model& base, std::optional<Ns> measured, bool collectives);

  /// A GPU task of the trace, by when it began.
  struct Recorded {
    Ns begin, busy;  ///< as traced
    Ns cost;         ///< in the model, which may scale the GPU's time to a measured step
    std::uint32_t event;
    bool kernel;  ///< no copy and no fill
  };

  [[nodiscard]] Ns busy_time(const std::vector<bool>& counts) const;
  [[nodiscard]] std::uint32_t place_of(EventId event) const;
  [[nodiscard]] Bound busiest_stream(const Model& changed, const std::vector<std::uint32_t>& other) const;

  std::vector<Bounds> of_ranks_;         ///< of a job, one for each rank: nothing else is set then
  double real_share_ = 1;                ///< of the busy time, where the measured step is shorter than that
  std::vector<Recorded> recorded_;       ///< sorted by begin
  std::vector<std::uint32_t> by_event_;  ///< places in recorded_, sorted by event
  /// By the event of an operation that was faster than its description allows: its measured time over its floor.
  std::unordered_map<std::uint32_t, double> faster_than_described_;
};

}  // namespace foretrace::whatif
