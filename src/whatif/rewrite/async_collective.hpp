#pragma once
// A collective on its own stream, overlapping the stream that computes: what it starts behind, and what waits for it.

#include "foretrace/whatif/draft.hpp"
#include "trace/latencies.hpp"

namespace foretrace::whatif {

/// It starts behind the call that launches it and, where there is one, behind the GPU task that completes what it sends.
inline void begin_behind(Draft& draft, const trace::Latencies& latencies, std::uint32_t collective, const Place& at) {
  const Ns start = latencies.collective_start;
  if (at.cpu != kNone) draft.depend(at.cpu, collective, start, DependencyKind::kLaunch);
  if (at.gpu != kNone) draft.depend(at.gpu, collective, start, DependencyKind::kStreamWait);
}

/// The task reads what the collective gives.
inline void hold_until(Draft& draft, const trace::Latencies& latencies, std::uint32_t collective, std::uint32_t task) {
  draft.depend(collective, task, latencies.stream_hand_over, DependencyKind::kStreamWait);
}

}  // namespace foretrace::whatif
