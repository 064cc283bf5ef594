#pragma once
// A trace sorted and linked as the rules need it: events per thread, calls in host order, GPU work in order of
// start, calls and their GPU work by correlation id, launch queues.

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "foretrace/trace/trace.hpp"
#include "graph/call_roles.hpp"

namespace foretrace::graph {

struct Call {
  std::uint32_t event;
  std::uint32_t lane;
  Ns begin, end;
  Ns blocked = 0;  ///< time the call waited for room in the launch queue
  CallRole role = CallRole::kOther;
  CallKind kind;                 ///< by name
  std::uint32_t first_work = 0;  ///< its GPU work: work_by_call[first_work .. first_work + works)
  std::uint32_t works = 0;
  std::uint32_t sync_row = kNone;  ///< event of the CUPTI record with the same correlation
  bool graph = false;              ///< launches a CUDA or HIP graph
};

struct GpuWork {
  std::uint32_t event;
  std::uint32_t lane;  ///< trace lane of the stream
  Ns begin, end;
  std::uint32_t call = kNone;    ///< index into calls
  std::uint32_t position = 0;    ///< in its stream, by order of launch, over the whole trace
  std::uint32_t before = kNone;  ///< the work before it on its stream, by start
  std::uint32_t group = 0;       ///< number of GPU tasks the same call launched: > 1 for CUDA graphs
  float waves = 0;               ///< waves of blocks; 0 when the trace does not tell
  bool collective = false;
  bool unrecorded = false;  ///< stands for nodes of a CUDA graph that the trace does not hold
  /// When it was put into its stream: the begin of its call. Of work without a call, the last launch on its stream before it;
  /// INT64_MIN when there is none: it was launched before the trace begins.
  Ns issued = INT64_MIN;
  Ns issued_before = INT64_MAX;  ///< the first launch on its stream behind it; INT64_MAX when there is none
};

class TraceIndex {
 public:
  /// Events that are more than kFarthest from `centre` come from a broken clock and are left out.
  TraceIndex(const trace::Trace& trace, Ns centre);
  static constexpr Ns kFarthest = 1'000'000 * kNsPerSecond;  // eleven days: a guard against damaged clocks
  [[nodiscard]] bool far(Ns when) const {
    Ns distance = 0;
    return __builtin_sub_overflow(when, centre_, &distance) || distance > kFarthest || distance < -kFarthest;
  }

  const trace::Trace& trace;
  std::vector<std::vector<std::uint32_t>> cpu;  ///< per trace lane: ops, annotations, calls, frames by (start, -end)
  /// For each of these the one around it, as a place in the same list; kNone for the outermost.
  std::vector<std::vector<std::uint32_t>> around;
  std::vector<Call> calls;                               ///< by (begin, event)
  std::vector<GpuWork> work;                             ///< by (begin, lane)
  std::vector<std::uint32_t> work_by_call;               ///< indices into work, grouped by call, by begin
  std::vector<std::vector<std::uint32_t>> launch_order;  ///< per trace lane of a stream: indices into work
  std::vector<std::uint8_t> has_ops;                     ///< per trace lane
  bool has_wait_rows = false;                            ///< some 'Stream Wait Event' row exists
  std::vector<std::uint32_t> queue_depth;  ///< per trace lane of a stream: launches that fit into its queue
  bool queue_depth_measured = false;       ///< some stream shows its own
  Ns queue_lag = 0;
  std::uint64_t orphans = 0;
  std::uint64_t early = 0;
  Ns longest_work = 0;                                                     ///< of all GPU work
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> streams;  ///< (device, stream) -> trace lane

  /// Events of a thread that begin in [from, to), in order.
  [[nodiscard]] std::span<const std::uint32_t> begun_in(std::uint32_t lane, Ns from, Ns to) const;
  /// Events of a thread that began before `when` and end behind it, outermost first.
  [[nodiscard]] std::vector<std::uint32_t> open_at(std::uint32_t lane, Ns when) const;
  /// The call behind an event; kNone when it is none.
  [[nodiscard]] std::uint32_t call_of(std::uint32_t event) const;
  /// The trace lane of a stream, of any device when none is given; kNone when nothing ran on it.
  [[nodiscard]] std::uint32_t stream_lane(std::int64_t device, std::int64_t stream) const;

 private:
  void collect();
  void nest();
  void link();
  void order_streams();
  void find_blocked_calls();
  /// Launches pending when blocked calls were released, per trace lane of their stream.
  using PendingOfLanes = std::vector<std::vector<std::uint32_t>>;
  void infer_blocked_calls(PendingOfLanes& pending);
  void find_queue_depths(PendingOfLanes& pending);
  [[nodiscard]] std::uint32_t pending_at(const Call& call, Ns when) const;

  Ns centre_;
  struct Interval {
    Ns begin, end;
  };
  std::vector<Interval> queue_full_;      ///< 'Command Buffer Full' rows
  std::vector<std::vector<Ns>> started_;  ///< per stream and launch: when it and all before it had started
};

}  // namespace foretrace::graph
