// Nodes of CUDA graphs that the trace does not hold. Profilers record some nodes of a graph and not others (of some versions
// only copies, memsets and the kernels of one library). What shows is a stream that stands still inside a graph, or in
// front of or behind one, while its work had been launched long before and nothing else runs on the device. The GPU works
// there: the time becomes a task of its own, which follows the device's speed, and not a distance that nothing moves.

#include <algorithm>
#include <map>
#include <tuple>

#include "graph/step_state.hpp"

namespace foretrace::graph {

namespace {

// Shorter ones are gaps between nodes; device gaps end below 3 us, inside a graph below 1 us.
constexpr Ns kShortest = 50 * kNsPerUs;

bool of_graph(const StepState& s, const GpuWork& w) { return w.call != kNone && s.index.calls[w.call].graph; }

// When the launch had come through; for a node of a graph that had begun, when it began.
Ns launched(const StepState& s, std::uint32_t work) {
  const GpuWork& w = s.index.work[work];
  if (w.call == kNone) return w.issued;
  const Call& call = s.index.calls[w.call];
  const std::uint32_t head = s.index.work_by_call[call.first_work];
  return call.graph && head != work ? s.index.work[head].begin : call.end;
}

}  // namespace

void find_unrecorded(StepState& s) {
  std::map<std::int64_t, Ns> busy_until;  // by device, over all work before the one at hand
  const std::size_t works = s.works.size();
  for (std::uint32_t at = 0; at < s.step_work.size(); ++at) {
    const std::uint32_t id = s.first_work + at;
    const GpuWork& w = s.index.work[id];
    Ns& busy = busy_until.try_emplace(s.device_of(w), INT64_MIN).first->second;
    const Ns from = busy;
    busy = std::max(busy, w.end);
    if (s.step_work[at] == kNone || s.works[s.step_work[at]].border || w.before == kNone) continue;
    if (!of_graph(s, w) && !of_graph(s, s.index.work[w.before])) continue;
    if (from <= launched(s, id) || w.begin - from <= kShortest || from < s.begin) continue;
    GpuWork extra = w;
    extra.begin = from;
    extra.end = w.begin;
    extra.unrecorded = true;
    extra.collective = false;
    extra.waves = 0;
    if (!of_graph(s, w)) extra.call = s.index.work[w.before].call;  // the graph in front of it
    if (s.task_of_call(extra.call) == kNone) continue;
    s.works.push_back({.work = kNone, .extra = static_cast<std::uint32_t>(s.unrecorded.size())});
    s.unrecorded.push_back(extra);
  }
  if (s.works.size() == works) return;
  s.graph.notes.unrecorded_tasks += s.works.size() - works;
  std::stable_sort(s.works.begin(), s.works.end(), [&](const StepWork& a, const StepWork& b) {
    const GpuWork& x = a.work == kNone ? s.unrecorded[a.extra] : s.index.work[a.work];
    const GpuWork& y = b.work == kNone ? s.unrecorded[b.extra] : s.index.work[b.work];
    return std::tie(x.begin, x.lane) < std::tie(y.begin, y.lane);
  });
  for (std::uint32_t i = 0; i < s.works.size(); ++i) {
    if (s.works[i].work != kNone) s.step_work[s.works[i].work - s.first_work] = i;
  }
}

}  // namespace foretrace::graph
