// Divides the CPU time of a trace: work of the program, work that launches (which runs slower under a profiler), and recording. A
// trace does not mark the three. What is regular and short launches; what is long and rare is the program's own.

#include "host/recorded_parts.hpp"

#include <algorithm>

#include "graph/call_roles.hpp"
#include "graph/startup.hpp"
#include "host/phase_counts.hpp"

namespace foretrace::host {

using graph::Graph;
using graph::Phase;
using graph::TaskKind;

namespace {

// Long stretches are rare in a thread that only launches. Those it has (the first operation of a phase) are shorter without the
// profiler too, up to this share of the thread's other time; 11 measured models had 0.5 to 6 %.
constexpr double kLongShare = 0.06;

// In a job of several ranks, stretches of this length without an event are Python that no event interrupts: hooks, schedules, tensor
// subclasses. Recording slows what comes right behind an event, and no more of them than this. (Compiled steps of one GPU have long
// stretches too, which recording does slow.)
constexpr Ns kPythonStretch = 20'000;

// CUDA-graph launches, synchronisations and the loading of data do not follow the cost of ordinary launches.
bool follows_launches(const Graph& g, std::size_t t) {
  if (g.phase[t] == Phase::kData) return false;
  if (g.kind[t] == TaskKind::kCpu) return true;
  const bool synchronises = t + 1 < g.lanes[g.lane[t]].end && g.kind[t + 1] == TaskKind::kWait;
  return g.kind[t] == TaskKind::kCall && !synchronises && !graph::is_graph_launch(g.task_name(t));
}

std::vector<char> launching(const Graph& g) {
  std::vector<char> launches(g.size(), 0);
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (g.launch[t].valid()) launches[g.launch[t].index()] = 1;
  }
  return launches;
}

Ns scaled(Ns time, double share) { return static_cast<Ns>(static_cast<double>(time) * share); }

// Takes the tasks of one thread; of its long stretches, only as much as a launching thread has.
void take_stretches(const Graph& g, const graph::GraphLane& lane, std::vector<Ns>& parts) {
  Ns in_short = 0, in_long = 0;
  for (std::size_t t = lane.begin; t < lane.end; ++t) {
    if (!follows_launches(g, t) || g.cost[t] > graph::kLongestWarmCall) continue;
    parts[t] = g.cost[t];
    (g.cost[t] > kLongestStretch ? in_long : in_short) += g.cost[t];
  }
  const double allowed = kLongShare * static_cast<double>(in_short);
  if (static_cast<double>(in_long) <= allowed) return;
  for (std::size_t t = lane.begin; t < lane.end; ++t) {
    if (g.cost[t] > kLongestStretch) parts[t] = scaled(parts[t], allowed / static_cast<double>(in_long));
  }
}

void keep_python(const Graph& g, const graph::GraphLane& lane, std::vector<Ns>& parts) {
  for (std::size_t t = lane.begin; t < lane.end; ++t) {
    if (g.kind[t] == TaskKind::kCpu) parts[t] = std::min(parts[t], kPythonStretch);
  }
}

// A thread that launches nothing for long does work of its own, in however many pieces.
void limit_between_launches(const graph::GraphLane& lane, const std::vector<char>& launches, std::vector<Ns>& parts) {
  std::size_t begin = lane.begin;
  Ns together = 0;
  for (std::size_t t = lane.begin; t < lane.end; ++t) {
    together += parts[t];
    if (launches[t] == 0 && t + 1 < lane.end) continue;
    if (together > graph::kLongestWarmCall) {
      const double share = static_cast<double>(graph::kLongestWarmCall) / static_cast<double>(together);
      for (std::size_t i = begin; i <= t; ++i) parts[i] = scaled(parts[i], share);
    }
    begin = t + 1;
    together = 0;
  }
}

// What recording a call that gives the GPU no work can have taken: the call and what follows it until the next event. Calls that
// do next to nothing (cuDNN asks for errors and attributes thousands of times) are recorded faster than others.
double room_behind(const Graph& g, const graph::GraphLane& lane, std::size_t t, const std::vector<Ns>& parts) {
  Ns room = parts[t];
  if (t + 1 < lane.end) {
    const graph::Recorded& next = g.recorded[t + 1];
    if (next.ops + next.calls + next.layers + next.ranges + next.frames == 0) room += parts[t + 1];
  }
  return (1 - kMinRemaining) * static_cast<double>(room);
}

// What recording the events of one thread took. Recording costs time before an event begins and after it ends, so what one task
// cannot hold is carried over to the next.
void take_recording(const Graph& g, const graph::GraphLane& lane, const std::vector<char>& launches,
                    const HostCosts::Profiler& costs, const std::array<double, kCpuPhases>& speed, CpuParts& parts) {
  double carried = 0;
  for (std::size_t t = lane.begin; t < lane.end; ++t) {
    const graph::Recorded& r = g.recorded[t];
    const std::uint32_t working = std::min<std::uint32_t>(r.calls, launches[t] != 0 ? 1 : 0);
    const double at_speed = 1e3 * speed[static_cast<std::size_t>(cpu_phase(g, t))];
    const double us = costs.op_us * (r.ops + r.ranges) + costs.call_us * working + costs.layer_us * r.layers +
                      costs.frame_us * r.frames;
    double short_calls = costs.short_call_us * at_speed * (r.calls - working);
    if (short_calls > 0 && g.kind[t] == TaskKind::kCall)
      short_calls = std::min(short_calls, room_behind(g, lane, t, parts.scalable));
    carried += us * at_speed + short_calls;
    const double taken = std::min(carried, (1 - kMinRemaining) * static_cast<double>(parts.scalable[t]));
    parts.recording[t] = static_cast<Ns>(taken);
    carried -= taken;
  }
}

}  // namespace

CpuParts cpu_parts(const Graph& g, const HostCosts& host, const std::array<double, kCpuPhases>& speed) {
  const std::vector<char> launches = launching(g);
  CpuParts parts{std::vector<Ns>(g.size(), 0), std::vector<Ns>(g.size(), 0)};
  const bool communicates = has_collectives(g);
  for (const graph::GraphLane& lane : g.lanes) {
    if (lane.kind != graph::GraphLaneKind::kCpu) continue;
    take_stretches(g, lane, parts.scalable);
    if (communicates) keep_python(g, lane, parts.scalable);
    limit_between_launches(lane, launches, parts.scalable);
    if (!g.recorded.empty()) take_recording(g, lane, launches, host.profiler, speed, parts);
  }
  return parts;
}

}  // namespace foretrace::host
