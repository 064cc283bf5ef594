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
  const EventKind kind = trace.kind(event);
  if (kind == EventKind::kOp) add(in.ops);
  if (kind == EventKind::kRuntime) add(in.calls);
  if (kind == EventKind::kPython) add(in.frames);
  if (kind == EventKind::kAnnotation) {
    add(classify_range(kind, trace.name(event)) == kLayerRange ? in.layers : in.ranges);
  }
}

}  // namespace

void count_recorded(StepState& s) {
  Graph& g = s.graph;
  g.recorded.resize(g.size(), Recorded{});
  bool any = false;
  for (const GraphLane& lane : g.lanes) {
    if (lane.kind != GraphLaneKind::kCpu || !lane.trace_lane.valid() || lane.begin == lane.end) continue;
    std::uint32_t task = lane.begin;
    for (const std::uint32_t e : s.index.begun_in(lane.trace_lane.value, s.begin, s.end)) {
      const Ns at = s.trace().events.start[e] - s.begin;
      while (task + 1 < lane.end && g.measured[task + 1] <= at) ++task;
      count_one(s.trace(), e, g.recorded[task]);
      any = true;
    }
  }
  if (!any) g.recorded.clear();
}

}  // namespace foretrace::graph
