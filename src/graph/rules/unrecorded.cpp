// Nodes of CUDA graphs that the trace does not hold. Profilers record some nodes of a graph and not others (of some versions
// only copies, memsets and the kernels of one library). The sign is a stream that is idle inside a graph, or
// before or after one, although its work was launched long before and nothing else runs on the device. The GPU works there:
// the time becomes a task, which scales with the device's speed, instead of a fixed lag.

#include <algorithm>
#include <map>
#include <tuple>

#include "graph/step_state.hpp"
#include "trace/device_times.hpp"

namespace foretrace::graph {

namespace {

bool of_graph(const StepState& s, const GpuWork& w) { return w.call != kNone && s.index.calls[w.call].graph; }

// When the launch had come through; for a node of a graph that had begun, when it began.
Ns launched(const StepState& s, std::uint32_t work) {
  const GpuWork& w = s.index.work[work];
  if (w.call == kNone) return w.issued;
  const Call& call = s.index.calls[w.call];
  const std::uint32_t head = s.index.work_by_call[call.first_work];
  return call.graph && head != work ? s.index.work[head].begin : call.end;
}

// What had ended when the GPU stood still in front of a task. Nothing from outside can hold a node inside a graph, so only
// nodes of the same launch count there; elsewhere all kernels of the device do. Copies run concurrently with kernels, but one that had
// just ended may have been waited for.
class Busy {
 public:
  explicit Busy(const StepState& s) : s_(s) {}

  [[nodiscard]] Ns until(const GpuWork& w) const {
    const GpuWork& before = s_.index.work[w.before];
    const Call* call = w.call == kNone ? nullptr : &s_.index.calls[w.call];
    const bool inside = call != nullptr && call->graph && &s_.index.work[s_.index.work_by_call[call->first_work]] != &w;
    if (inside) {
      const auto it = launch_.find(w.call);
      return it == launch_.end() ? w.begin : it->second;
    }
    Ns busy = before.end;
    if (const auto it = kernels_.find(s_.device_of(w)); it != kernels_.end()) busy = std::max(busy, it->second);
    if (const auto it = copies_.find(s_.device_of(w));
        it != copies_.end() && it->second + trace::kLongestWake >= w.begin) {
      busy = std::max(busy, it->second);
    }
    return busy;
  }

  void add(const GpuWork& w) {
    const bool copy = s_.trace().kind(w.event) == trace::EventKind::kMemcpy;
    Ns& device = (copy ? copies_ : kernels_).try_emplace(s_.device_of(w), INT64_MIN).first->second;
    device = std::max(device, w.end);
    if (!of_graph(s_, w)) return;
    Ns& launch = launch_.try_emplace(w.call, INT64_MIN).first->second;
    launch = std::max(launch, w.end);
  }

 private:
  const StepState& s_;
  std::map<std::int64_t, Ns> kernels_, copies_;  // by device
  std::map<std::uint32_t, Ns> launch_;           // by call
};

}  // namespace

void find_unrecorded(StepState& s) {
  const auto calls = s.index.calls.begin();
  if (std::none_of(calls + s.first_call, calls + s.last_call, [](const Call& c) { return c.graph; })) return;
  Busy busy(s);
  const std::size_t works = s.works.size();
  for (std::uint32_t at = 0; at < s.step_work.size(); ++at) {
    const std::uint32_t id = s.first_work + at;
    const GpuWork& w = s.index.work[id];
    const bool candidate = s.step_work[at] != kNone && !s.works[s.step_work[at]].border && w.before != kNone &&
                           (of_graph(s, w) || of_graph(s, s.index.work[w.before]));
    const Ns from = candidate ? std::max(busy.until(w), s.index.work[w.before].end) : 0;
    busy.add(w);
    if (!candidate || from < launched(s, id) || w.begin - from <= trace::kLongestWake || from < s.begin) continue;
    GpuWork extra = w;
    extra.begin = from;
    extra.end = w.begin;
    extra.unrecorded = true;
    extra.collective = false;
    extra.waves = 1;                                                // as far as anybody can tell they fill the device
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
