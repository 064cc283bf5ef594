#include <fmt/format.h>

#include <algorithm>

#include "foretrace/trace/ranges.hpp"
#include "foretrace/whatif/script.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/whole_number.hpp"

namespace foretrace::whatif {

namespace {

// Taking a batch that is ready from the workers' queue: 54 to 75 µs of _MultiProcessingDataLoaderIter.__next__ in a trace.
constexpr Ns kTakeBatch = 60'000;
// A worker process takes longer for a batch than the main thread would: it writes it into shared memory, and workers share
// caches and memory. Batches of 64 images of 224 x 224 took 1.31 times as long with 2 workers and 1.41 with 4.
constexpr double kWorkerSlowdown = 1.35;

/// The data loader's part of the main thread: [begin, end) in the step's time.
struct Loading {
  Ns begin = 0, end = 0;
  bool in_workers = false;  ///< the main thread only waits for them
  std::uint32_t range = 0;
};

std::vector<Loading> find_loading(const Model& m) {
  const Graph& g = m.graph;
  const trace::Trace& t = *m.trace;
  // Measured times count from the step's begin; any task with an event of its own tells where that lies.
  std::vector<Loading> found;
  const graph::GraphLane& main = g.lanes[g.main_lane];
  std::uint32_t anchor = main.begin;
  while (anchor < main.end && !(g.event[anchor].valid() && g.kind[anchor] == TaskKind::kCall)) ++anchor;
  if (anchor == main.end) return found;
  const Ns zero = t.events.start[g.event[anchor].index()] - g.measured[anchor];
  for (std::uint32_t e = 0; e < t.size(); ++e) {
    if (t.kind(e) != trace::EventKind::kAnnotation || !trace::is_loader_range(t.name(e))) continue;
    const Ns begin = t.events.start[e] - zero;
    if (begin < 0 || begin >= g.traced || t.events.lane[e] != main.trace_lane) continue;
    found.push_back({begin, t.end(e) - zero, trace::is_worker_loader_range(t.name(e)), e});
  }
  return found;
}

Status apply_dataloader(Model& m, Draft& draft, const Parameters& parameters) {
  const Graph& g = m.graph;
  const std::vector<Loading> loading = find_loading(m);
  if (loading.empty()) return fail(ErrorCode::kDeclined, "no DataLoader gives a batch within the step");
  const double workers = parameters.number("workers");
  Selection gone;
  Ns batch = 0;  // of one worker's time
  for (const Loading& l : loading) {
    for (std::uint32_t t = g.lanes[g.main_lane].begin; t < g.lanes[g.main_lane].end; ++t) {
      const bool work = g.kind[t] == TaskKind::kCpu || g.kind[t] == TaskKind::kCall;
      if (work && g.phase[t] == Phase::kData && g.measured[t] >= l.begin && g.measured[t] < l.end) gone.push_back(t);
    }
    if (!l.in_workers) {
      batch += static_cast<Ns>(static_cast<double>(l.end - l.begin) * kWorkerSlowdown);
    } else if (l.end - l.begin > 10 * kTakeBatch) {
      // Workers that are waited for make one batch per step, all of them together.
      if (!parameters.given("now")) {
        return fail(ErrorCode::kDeclined, "the step waits for its workers: say with now=… how many there were");
      }
      batch += static_cast<Ns>(static_cast<double>(g.traced) * parameters.number("now"));
    }
  }
  if (batch == 0) return fail(ErrorCode::kDeclined, "the batch is always ready: more workers change nothing");
  std::uint32_t first = gone.empty() ? g.lanes[g.main_lane].begin : gone.front();
  if (first > g.lanes[g.main_lane].begin) --first;
  draft.insert_cpu(first, "take a batch", kTakeBatch * static_cast<Ns>(loading.size()), Phase::kData);
  draft.remove(gone);
  // While one step runs, the workers together make the next one's batch; the step cannot be shorter than that.
  const std::uint32_t lane = draft.add_lane(graph::GraphLaneKind::kCpu, "data-loader workers");
  const std::uint32_t made = draft.append(lane, TaskKind::kCpu, "a worker's share of a batch",
                                          static_cast<Ns>(static_cast<double>(batch) / workers), Phase::kData, {});
  const std::uint32_t wait = draft.insert_wait(g.lanes[g.main_lane].end - 1, "the next batch");
  draft.depend(made, wait, 0, DependencyKind::kThread);
  return {};
}

void write_code(const ScriptPart& p, ScriptPlaces& to) {
  to.loader = fmt::format("    options.update(num_workers={:g}, pin_memory=torch.cuda.is_available()){}",
                          p.parameters.number("workers"), p.gain);
}

WhatIf dataloader_whatif() {
  return {.name = "dataloader",
          .about = "worker processes load the batches while the step before runs",
          .parameters = {{"workers", "how many", "4", {}, ParameterType::kNumber, false, 0, whole_number<>},
                         {"now",
                          "how many the trace was recorded with, where it waits for them",
                          "",
                          {},
                          ParameterType::kNumber,
                          false,
                          0,
                          whole_number<>}},
          .assumes = "as many free cores as workers; the mean over many steps, batches come in bursts",
          .source = "torch.utils.data.DataLoader(num_workers=…)",
          .not_modelled = "storage that is slower than the workers; workers that take cores from the main thread",
          .needs = {Need::kLoader},
          .changes = Changes::kInput,
          .parts = {.memory = Part::kUnchanged},
          .code = "DataLoader(dataset, batch_size=…, num_workers=4, pin_memory=True)",
          .effort = Effort::kLine,
          .stage = Stage::kRuntime,
          .advise = {"dataloader"},
          .validated = true,
          .apply = apply_dataloader,
          .whole_program = "loading is not marked in XLA's profiles",
          .write_code = write_code};
}

const Registered kRegistered(dataloader_whatif);

}  // namespace

}  // namespace foretrace::whatif
