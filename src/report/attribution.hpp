#pragma once
// Attribution: for every CPU event of a window and all GPU work launched from it, the phase, the layer and the operation
// it works for.
//
// CPU events (operations, annotations, runtime calls, Python frames) nest on their thread; phase and layer pass from the
// enclosing event to those inside it. GPU work takes them from its launch call (by correlation id, else from the
// operation with its External id).
//   phase   Optimizer.* ranges -> optimizer; autograd nodes and the autograd thread -> backward; collectives ->
//           communication; data-loader ranges and host-to-device copies outside backward and optimizer -> data; other
//           operations -> forward; time no operation covers -> other.
//   layer   forward: the innermost range "layer:<name>|<type>", else the innermost "nn.Module: <name>" frame; backward:
//           the layer of the last forward operation with the same sequence number; gradient accumulation: the layer of
//           the backward node before it.
// Sequence numbers count per forward thread; two forward threads in one process are not told apart.

#include <cstdint>
#include <string>
#include <vector>

#include "foretrace/base/time.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::report {

enum class Phase : std::uint8_t { kForward, kBackward, kOptimizer, kCommunication, kData, kOther, kCount };
std::string_view to_string(Phase phase);

inline constexpr std::uint32_t kNone = 0xFFFF'FFFFu;

/// A CPU event that overlaps the window. Times are clipped to it.
struct CpuRow {
  Ns start = 0, end = 0;
  Ns self = 0;  ///< without the events inside it
  std::uint32_t event = 0;
  std::uint32_t parent = kNone;  ///< row of the enclosing event
  std::uint32_t op = kNone;      ///< row of the innermost operation, itself included
  std::uint32_t layer = kNone;   ///< index into Attribution::layers
  LaneId lane;
  trace::EventKind kind = trace::EventKind::kOther;
  Phase phase = Phase::kOther;
};

/// A kernel, copy or fill that belongs to the window.
struct GpuRow {
  std::uint32_t event = 0;
  std::uint32_t launch = kNone;  ///< row of its runtime call, or of the operation with its External id
  std::uint32_t layer = kNone;
  Phase phase = Phase::kOther;
};

struct LayerName {
  std::string name, type;
};

struct Attribution {
  Ns start = 0, end = 0;
  std::vector<CpuRow> cpu;  ///< by lane, then start, enclosing events first
  std::vector<GpuRow> gpu;  ///< in the order of the file
  std::vector<LayerName> layers;

  /// Row of the innermost CPU event of a lane at a time, kNone when there is none.
  [[nodiscard]] std::uint32_t at(LaneId lane, Ns time) const;
};

/// O(n log n) in the events of the window, O(n) in those of the trace.
Attribution attribute(const trace::Trace& trace, Ns start, Ns end);

}  // namespace foretrace::report
