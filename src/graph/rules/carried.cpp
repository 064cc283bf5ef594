// Waiting for the step before. Where the GPU runs behind its CPU, work of this step waits for work that an earlier step
// launched. Steps repeat: what this step does at the same place stands for it, and the dependency leads from one copy of
// the step to the next.

#include <algorithm>

#include "graph/step_state.hpp"

namespace foretrace::graph {

Counterpart counterpart(const StepState& s, std::uint32_t work) {
  const GpuWork& w = s.index.work[work];
  const auto& stream = s.index.launch_order[w.lane];
  const auto place_at = [&](Ns when) {  // of the first launch not before `when`
    return std::lower_bound(stream.begin(), stream.end(), when,
                            [&](std::uint32_t x, Ns t) { return s.index.work[x].issued < t; }) -
           stream.begin();
  };
  // The step it was launched in; -1: before the first of the trace.
  const auto& steps = s.steps.steps;
  const auto after = std::upper_bound(steps.begin(), steps.end(), w.issued,
                                      [](Ns t, const trace::Step& step) { return t < step.start; });
  const std::ptrdiff_t step = after - steps.begin() - 1;
  if (step >= static_cast<std::ptrdiff_t>(s.which)) return {};
  const std::ptrdiff_t from_end = place_at(steps[static_cast<std::size_t>(step + 1)].start) - 1 - w.position;
  const std::ptrdiff_t begin = place_at(s.begin);
  const std::ptrdiff_t end = place_at(s.end);
  const auto same = [&](std::ptrdiff_t at) {
    return at >= begin && at < end &&
           s.trace().events.name[s.index.work[stream[static_cast<std::size_t>(at)]].event] ==
               s.trace().events.name[w.event];
  };
  // Steps differ by a few launches: the nearest of the same name.
  constexpr std::ptrdiff_t kFarthest = 64;
  for (std::ptrdiff_t off = 0; off <= kFarthest; ++off) {
    for (const std::ptrdiff_t at : {end - 1 - from_end - off, end - 1 - from_end + off}) {
      if (!same(at)) continue;
      const std::uint32_t mine = s.step_work_of(stream[static_cast<std::size_t>(at)]);
      if (mine == kNone) continue;
      return {s.works[mine].task, static_cast<std::uint32_t>(static_cast<std::ptrdiff_t>(s.which) - step)};
    }
  }
  return {};
}

bool StepState::depend(Source from, std::uint32_t to, Ns lag, DependencyKind kind, std::uint32_t point) {
  if (!from.earlier) {
    depend(works[from.id].task, to, lag, kind, point);
    return true;
  }
  const Counterpart like = counterpart(*this, from.id);
  if (like.task == kNone) return false;
  graph.carried.push_back({{like.task, to, lag, point, kind}, like.back});
  return true;
}

}  // namespace foretrace::graph
