#include <algorithm>

#include "foretrace/simulate/simulate.hpp"

namespace foretrace::simulate {

std::vector<PathStep> critical_path(const graph::Graph& graph, const Timeline& timeline) {
  // The end of the step: its last task, or in a row of copies whatever ended last on the main thread or the GPU.
  std::uint32_t task = graph.last.value;
  if (graph.copies > 1) {
    for (std::uint32_t l = 0; l < graph.lanes.size(); ++l) {
      const graph::GraphLane& lane = graph.lanes[l];
      if (lane.kind == graph::GraphLaneKind::kCpu && l != graph.main_lane) continue;
      if (lane.end > lane.begin && timeline.end[lane.end - 1] > timeline.end[task]) task = lane.end - 1;
    }
  }
  std::vector<PathStep> path;
  for (std::size_t guard = 0; task != kNone && guard <= graph.size(); ++guard) {
    path.push_back({task, timeline.cause_kind[task]});
    task = timeline.cause[task];
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace foretrace::simulate
