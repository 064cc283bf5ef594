// What the profiler wrote while each CPU task ran: an event counts in the task it begins in.

#include <algorithm>

#include "graph/layer_marks.hpp"
#include "graph/step_state.hpp"

namespace foretrace::graph {

namespace {

using trace::EventKind;

void count_one(const trace::Trace& trace, std::uint32_t event, Recorded& in) {
  const auto add = [](std::uint16_t& count) {
    if (count < UINT16_MAX) ++count;
  };
  switch (trace.kind(event)) {
    case EventKind::kOp:
      return add(in.ops);
    case EventKind::kRuntime:
      return add(in.calls);
    case EventKind::kPython:
      return add(in.frames);
    case EventKind::kAnnotation:
      return add(classify_range(EventKind::kAnnotation, trace.name(event)) == kLayerRange ? in.layers : in.ranges);
    default:
      return;
  }
}

}  // namespace

void count_recorded(StepState& s) {
  Graph& g = s.graph;
  g.recorded.resize(g.size(), Recorded{});
  bool any = false;
  for (const GraphLane& lane : g.lanes) {
    if (lane.kind != GraphLaneKind::kCpu || !lane.trace_lane.valid() || lane.begin == lane.end) continue;
    const std::vector<std::uint32_t>& events = s.index.cpu[lane.trace_lane.index()];
    auto it = std::lower_bound(events.begin(), events.end(), s.begin,
                               [&](std::uint32_t e, Ns t) { return s.trace().events.start[e] < t; });
    std::uint32_t task = lane.begin;
    for (; it != events.end() && s.trace().events.start[*it] < s.end; ++it) {
      const Ns at = s.trace().events.start[*it] - s.begin;
      while (task + 1 < lane.end && g.measured[task + 1] <= at) ++task;
      count_one(s.trace(), *it, g.recorded[task]);
      any = true;
    }
  }
  if (!any) g.recorded.clear();
}

}  // namespace foretrace::graph
