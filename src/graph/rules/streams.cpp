// GPU lanes: one per stream, tasks in order of start. Work launched before the step that still runs inside it (or whose
// launch is not in the trace) is border work: it keeps its measured place. In a step that is repeated the copy before leaves
// that work behind, and it is only remembered as something to wait for.

#include <algorithm>
#include <map>

#include "graph/step_state.hpp"

namespace foretrace::graph {

namespace {

using trace::EventKind;

enum class Owner : std::uint8_t { kThisStep, kBefore, kOther };

Owner owner_of(const StepState& s, const GpuWork& w) {
  if (w.call != kNone) {
    if (s.task_of_call(w.call) != kNone) return Owner::kThisStep;
    // Launches of other processes are not ours.
    if (!s.ours(s.index.calls[w.call].lane)) return Owner::kOther;
    return s.index.calls[w.call].begin < s.begin ? Owner::kBefore : Owner::kOther;
  }
  const bool launch_before = w.issued != INT64_MIN;
  const bool launch_behind = w.issued_before != INT64_MAX;
  // A stream without any launch in the trace: only its times tell.
  if (!launch_before && !launch_behind) {
    if (w.begin >= s.begin) return w.begin < s.end ? Owner::kThisStep : Owner::kOther;
    return Owner::kBefore;
  }
  if (!launch_before) return Owner::kBefore;  // before the trace begins
  const Ns when = launch_behind ? w.issued_before : w.issued;
  if (when < s.begin) return Owner::kBefore;
  return when < s.end ? Owner::kThisStep : Owner::kOther;
}

TaskKind kind_of(const StepState& s, const GpuWork& w) {
  if (w.collective) return TaskKind::kCollective;
  const EventKind kind = s.trace().kind(w.event);
  return kind == EventKind::kMemcpy   ? TaskKind::kMemcpy
         : kind == EventKind::kMemset ? TaskKind::kMemset
                                      : TaskKind::kKernel;
}

void select_works(StepState& s) {
  // Work of this step starts after its launch, so it begins inside the window or later; border work may begin before it.
  // How far before: no longer than the longest piece of work in the trace.
  const auto first = std::lower_bound(s.index.work.begin(), s.index.work.end(), s.begin - s.index.longest_work,
                                      [](const GpuWork& w, Ns t) { return w.begin < t; });
  s.first_work = static_cast<std::uint32_t>(first - s.index.work.begin());
  std::uint32_t last = s.first_work;
  for (std::uint32_t c = s.first_call; c < s.last_call; ++c) {
    const Call& call = s.index.calls[c];
    if (s.task_of_call(c) == kNone) continue;
    for (std::uint32_t i = 0; i < call.works; ++i) {
      last = std::max(last, s.index.work_by_call[call.first_work + i] + 1);
    }
  }
  while (last < s.index.work.size() && s.index.work[last].begin < s.end) ++last;
  s.step_work.assign(last - s.first_work, kNone);
  for (std::uint32_t w = s.first_work; w < last; ++w) {
    const GpuWork& work = s.index.work[w];
    const Owner owner = owner_of(s, work);
    if (owner == Owner::kOther) continue;
    const bool border = owner == Owner::kBefore;
    if (border && (work.end <= s.begin || (work.begin >= s.end && !s.periodic))) continue;
    if (border && s.periodic) {
      s.earlier.push_back(w);
      continue;
    }
    s.step_work[w - s.first_work] = static_cast<std::uint32_t>(s.works.size());
    s.works.push_back({.work = w, .border = border});
  }
}

}  // namespace

void place_gpu_work(StepState& s) {
  select_works(s);
  find_unrecorded(s);
  const auto& lanes = s.trace().lanes;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::uint32_t>> streams;  // (device, stream): by id
  for (std::uint32_t i = 0; i < s.works.size(); ++i) {
    const trace::Lane& lane = lanes[s.gpu(i).lane];
    auto& stream = streams[{lane.pid_number, lane.tid_number}];
    s.works[i].previous = stream.empty() ? kNone : stream.back();
    stream.push_back(i);
  }
  for (const auto& [id, stream] : streams) {
    const std::uint32_t lane = s.open_lane(GraphLaneKind::kGpu, s.gpu(stream.front()).lane);
    s.graph.lanes[lane].device = id.first;
    s.graph.lanes[lane].stream = id.second;
    if (!s.without(DependencyKind::kQueue)) {
      s.graph.lanes[lane].queue_depth = s.index.queue_depth[s.gpu(stream.front()).lane];
      s.graph.lanes[lane].queue_lag = s.index.queue_lag;
    }
    for (const std::uint32_t i : stream) {
      StepWork& w = s.works[i];
      const GpuWork& work = s.gpu(i);
      const Ns begin = w.border ? std::max(work.begin, s.begin) : work.begin;
      const std::uint32_t op = kNone;
      if (work.unrecorded) {
        w.task = s.add_unrecorded(work.end - begin, begin - s.begin);
      } else {
        w.task = s.add_task(kind_of(s, work), work.end - begin, begin - s.begin, s.trace().events.name[work.event],
                            work.event, op);
      }
      const std::uint32_t call = work.call == kNone ? kNone : s.task_of_call(work.call);
      if (call != kNone) {
        s.graph.launch[w.task] = TaskId{call};
        s.graph.op[w.task] = s.graph.op[call];
      }
      s.graph.notes.border_tasks += w.border ? 1u : 0u;
    }
    s.close_lane();
  }
}

}  // namespace foretrace::graph
