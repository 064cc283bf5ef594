#include "host/recorded_parts.hpp"

#include <algorithm>

#include "graph/call_roles.hpp"

namespace foretrace::host {

using graph::Graph;
using graph::Phase;
using graph::TaskKind;

namespace {

// CUDA-graph launches, waiting calls and the loading of data do not follow the cost of ordinary launches.
bool scaled(const Graph& g, std::size_t t) {
  if (g.phase[t] == Phase::kData) return false;
  if (g.kind[t] == TaskKind::kCpu) return true;
  return g.kind[t] == TaskKind::kCall && !graph::is_graph_launch(g.task_name(t));
}

// Calls followed by a wait are synchronisations; what is left of their cost is not the launch model's business.
bool is_sync_call(const Graph& g, std::size_t t) {
  return g.kind[t] == TaskKind::kCall && t + 1 < g.lanes[g.lane[t]].end && g.kind[t + 1] == TaskKind::kWait;
}

std::vector<char> launching(const Graph& g) {
  std::vector<char> launches(g.size(), 0);
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (g.launch[t].valid()) launches[g.launch[t].index()] = 1;
  }
  return launches;
}

// Parts of the tasks of one thread. Long stretches are rare in a thread that only launches, and those it has (the first
// operation of a phase) are shorter without the profiler too; what goes beyond that share is the program's own.
void take_stretches(const Graph& g, const graph::GraphLane& lane, const CpuPrior& prior, std::vector<Ns>& parts) {
  Ns usual = 0, of_long = 0;
  const auto is_long = [&](std::size_t t) { return g.cost[t] > prior.longest_stretch; };
  for (std::size_t t = lane.begin; t < lane.end; ++t) {
    if (graph::is_gpu(g.kind[t]) || !scaled(g, t) || is_sync_call(g, t)) continue;
    if (g.cost[t] > prior.longest_stall) continue;
    parts[t] = g.cost[t];
    (is_long(t) ? of_long : usual) += g.cost[t];
  }
  const double allowed = prior.long_stretches * static_cast<double>(usual);
  if (static_cast<double>(of_long) <= allowed) return;
  const double share = allowed / static_cast<double>(of_long);
  for (std::size_t t = lane.begin; t < lane.end; ++t) {
    if (is_long(t)) parts[t] = static_cast<Ns>(static_cast<double>(parts[t]) * share);
  }
}

// A thread that launches nothing for long does work of its own, in however many pieces.
void limit_between_launches(const graph::GraphLane& lane, const std::vector<char>& launches, const CpuPrior& prior,
                            std::vector<Ns>& parts) {
  std::size_t begin = lane.begin;
  Ns together = 0;
  for (std::size_t t = lane.begin; t < lane.end; ++t) {
    together += parts[t];
    if (launches[t] == 0 && t + 1 < lane.end) continue;
    if (together > prior.longest_between_launches) {
      const double share = static_cast<double>(prior.longest_between_launches) / static_cast<double>(together);
      for (std::size_t i = begin; i <= t; ++i) parts[i] = static_cast<Ns>(static_cast<double>(parts[i]) * share);
    }
    begin = t + 1;
    together = 0;
  }
}

// Of each CPU task's cost the part that follows launches and the profiler; the rest is the program's own and keeps its time.
std::vector<Ns> ordinary_parts(const Graph& g, const std::vector<char>& launches, const CpuPrior& prior) {
  std::vector<Ns> parts(g.size(), 0);
  for (const graph::GraphLane& lane : g.lanes) {
    if (lane.kind != graph::GraphLaneKind::kCpu) continue;
    take_stretches(g, lane, prior, parts);
    limit_between_launches(lane, launches, prior, parts);
  }
  return parts;
}

// Recording an event costs time before the event begins and behind its end, in the tasks around it; further away it was not.
constexpr Ns kLongestDebt = 100'000;

// What recording a call that gives the GPU no work may have taken at most: the call and what follows it until the next event. Calls that
// do next to nothing (cuDNN asks for errors and attributes thousands of times) are recorded faster than others.
double room_behind(const Graph& g, const graph::GraphLane& lane, std::size_t t, const std::vector<Ns>& parts) {
  Ns room = parts[t];
  if (t + 1 < lane.end) {
    const graph::Recorded& next = g.recorded[t + 1];
    if (next.ops + next.calls + next.layers + next.ranges + next.frames == 0) room += parts[t + 1];
  }
  return (1 - kLeastLeft) * static_cast<double>(room);
}

// Of each CPU task's ordinary part, what recording its events cost at speed 1 times `speed`.
std::vector<Ns> recording_costs(const Graph& g, const std::vector<Ns>& parts, const std::vector<char>& launches,
                                const HostCosts& host, const std::array<double, kCpuPhases>& speed) {
  std::vector<Ns> off(g.size(), 0);
  if (g.recorded.empty()) return off;
  for (const graph::GraphLane& lane : g.lanes) {
    if (lane.kind != graph::GraphLaneKind::kCpu) continue;
    double debt = 0;
    for (std::size_t t = lane.begin; t < lane.end; ++t) {
      const graph::Recorded& r = g.recorded[t];
      const std::uint32_t working = std::min<std::uint32_t>(r.calls, launches[t] != 0 ? 1 : 0);
      const double at_speed = 1e3 * speed[static_cast<std::size_t>(cpu_phase(g, t))];
      const double us = host.event_op_us * (r.ops + r.ranges) + host.event_call_us * working +
                        host.event_layer_us * r.layers + host.event_frame_us * r.frames;
      double short_calls = host.event_short_call_us * at_speed * (r.calls - working);
      if (short_calls > 0 && g.kind[t] == TaskKind::kCall)
        short_calls = std::min(short_calls, room_behind(g, lane, t, parts));
      debt = std::min(debt + us * at_speed + short_calls, static_cast<double>(kLongestDebt));
      const double taken = std::min(debt, (1 - kLeastLeft) * static_cast<double>(parts[t]));
      off[t] = static_cast<Ns>(taken);
      debt -= taken;
    }
  }
  return off;
}

}  // namespace

CpuParts cpu_parts(const Graph& g, const CpuPrior& prior, const std::array<double, kCpuPhases>& speed) {
  const std::vector<char> launches = launching(g);
  CpuParts parts{ordinary_parts(g, launches, prior), {}};
  parts.recording = recording_costs(g, parts.ordinary, launches, prior.host, speed);
  return parts;
}

}  // namespace foretrace::host
