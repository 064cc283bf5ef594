#include "whatif/rewrite/loading.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "graph/loading.hpp"
#include "graph/step_begin.hpp"
#include "trace/ranges.hpp"

namespace foretrace::whatif {

using trace::EventKind;
using trace::LoaderRange;

namespace {

// The loader's ranges of the main thread, outermost only, by begin.
std::vector<LoadedBatch> loader_ranges(const Model& m) {
  std::vector<LoadedBatch> found;
  const Graph& g = m.graph;
  const trace::Trace& t = *m.trace;
  const std::optional<Ns> zero = graph::step_begin(t, g);
  if (!zero) return found;
  std::vector<std::int8_t> known(t.strings.size(), -1);
  for (std::uint32_t e = 0; e < t.size(); ++e) {
    if (t.kind(e) != EventKind::kAnnotation && t.kind(e) != EventKind::kPython) continue;
    if (t.events.lane[e] != g.lanes[g.main_lane].trace_lane) continue;
    const Ns begin = t.events.start[e] - *zero;
    if (begin < 0 || begin >= g.traced) continue;
    std::int8_t& role = known[t.events.name[e].index()];
    if (role < 0) role = static_cast<std::int8_t>(trace::loader_range(t.name(e)));
    const auto is = static_cast<LoaderRange>(role);
    if (is != LoaderRange::kLoads && is != LoaderRange::kWaitsForWorkers) continue;
    found.push_back({begin, t.end(e) - *zero, is == LoaderRange::kWaitsForWorkers, {}, 0});
  }
  std::sort(found.begin(), found.end(), [](const LoadedBatch& a, const LoadedBatch& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<LoadedBatch> outermost;
  for (const LoadedBatch& l : found) {
    if (outermost.empty() || l.begin >= outermost.back().end) {
      outermost.push_back(l);
    } else {
      outermost.back().in_workers |= l.in_workers;  // a frame of Python around the range
    }
  }
  return outermost;
}

}  // namespace

std::vector<LoadedBatch> loaded_batches(const Model& m, const Draft& draft) {
  const Graph& g = m.graph;
  std::vector<LoadedBatch> batches = loader_ranges(m);
  std::size_t at = 0;
  for (std::uint32_t t = g.lanes[g.main_lane].begin; t < g.lanes[g.main_lane].end; ++t) {
    // What a change put there has no event.
    if (g.phase[t] != Phase::kData || !g.event[t].valid() || draft.removed(t)) continue;
    if (g.kind[t] != TaskKind::kCpu && g.kind[t] != TaskKind::kCall) continue;
    while (at < batches.size() && batches[at].end <= g.measured[t]) ++at;
    if (at == batches.size()) break;
    if (g.measured[t] < batches[at].begin) continue;
    batches[at].tasks.push_back(t);
    batches[at].time += draft.cost(t);
  }
  return batches;
}

std::size_t recorded_workers(const trace::Trace& trace) {
  std::set<std::pair<StringId, StringId>> workers;
  const auto names_worker = [&](StringId name) {
    return name.valid() && contains(trace.strings[name], "pt_data_worker");
  };
  for (const trace::Lane& lane : trace.lanes) {
    // PyTorch names a worker's main thread and its process so.
    if (names_worker(lane.name) || names_worker(lane.process_name)) workers.emplace(lane.pid, StringId{});
  }
  if (!workers.empty()) return workers.size();
  for (std::uint32_t e = 0; e < trace.size(); ++e) {
    if (trace.kind(e) != EventKind::kPython || !trace.events.lane[e].valid()) continue;
    const std::string_view name = trace.name(e);
    if (!name.ends_with(": _worker_loop") || !contains(name, "torch/utils/data/_utils/worker.py")) continue;
    const trace::Lane& lane = trace.lanes[trace.events.lane[e].index()];
    workers.emplace(lane.pid, lane.tid);
  }
  return workers.size();
}

std::size_t scale_loading(Model& m, Draft& draft, double x) {
  const Graph& g = m.graph;
  std::size_t changed = 0;
  const auto grow = [&](std::uint32_t t) {
    draft.set(t, static_cast<Ns>(static_cast<double>(draft.cost(t)) * x), graph::Origin::kScaled);
    ++changed;
  };
  bool hidden = false;
  const bool workers = graph::workers_lane(g) != kNone;
  for (const LoadedBatch& batch : loaded_batches(m, draft)) {
    hidden |= batch.in_workers && !workers && !batch.tasks.empty();
    if (batch.in_workers) continue;  // the main thread opens what has come, however much it is
    for (const std::uint32_t t : batch.tasks) grow(t);
  }
  // Workers, and the thread that pins what they made.
  for (const graph::GraphLane& lane : g.lanes) {
    if (lane.kind != graph::GraphLaneKind::kCpu || lane.trace_lane.valid()) continue;
    for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
      if (g.kind[t] == TaskKind::kCpu && g.phase[t] == Phase::kData && !draft.removed(t)) grow(t);
    }
  }
  if (hidden) {
    m.not_modelled.emplace_back(
        "how long worker processes take for the new batch: they were hardly waited for, so the trace does not show it");
  }
  return changed;
}

}  // namespace foretrace::whatif
