#include <fmt/format.h>

#include <algorithm>

#include "hardware/figures.hpp"
#include "trace/ranges.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/op_chains.hpp"
#include "whatif/model/script.hpp"
#include "whatif/model/whole_number.hpp"

namespace foretrace::whatif {
namespace {

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

// Of what the main thread did for a batch, the copy into pinned memory: beside workers a thread of the main process does it.
Ns pinning(const Model& m, const Loading& l) {
  const Graph& g = m.graph;
  Ns sum = 0;
  for (std::uint32_t t = g.lanes[g.main_lane].begin; t < g.lanes[g.main_lane].end; ++t) {
    if (!g.op[t].valid() || g.measured[t] < l.begin || g.measured[t] >= l.end) continue;
    if (m.trace->name(m.chains->outermost(g.op[t].value)) == "aten::pin_memory") sum += g.cost[t];
  }
  return sum;
}

bool is_batch_copy(const Graph& g, std::uint32_t t) {
  return g.kind[t] == TaskKind::kMemcpy && g.phase[t] == Phase::kData &&
         g.task_name(t).find("HtoD") != std::string_view::npos;
}

// Tensors of a batch are copied to the GPU from the kind of memory the loader makes them in.
void copy_from(const Model& m, Draft& draft, bool pinned) {
  const Graph& g = m.graph;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (!is_batch_copy(g, t)) continue;
    const bool now = g.task_name(t).find("Pageable") == std::string_view::npos;
    if (now == pinned) continue;
    const double factor = pinned ? 1 / hardware::measured_figures(m.device).pageable_copy
                                 : hardware::measured_figures(m.device).pageable_copy;
    draft.set(t, static_cast<Ns>(static_cast<double>(g.cost[t]) * factor), graph::Origin::kScaled);
    if (!g.launch[t].valid()) continue;
    const std::uint32_t call = g.launch[t].value;
    if (pinned) {
      draft.set(call, std::min(g.cost[call], m.cpu_time(m.host.loader.copy_call_us, Phase::kForward)),
                graph::Origin::kScaled);
      if (call + 1 < g.lanes[g.lane[call]].end && g.kind[call + 1] == TaskKind::kWait) draft.remove({call + 1});
    } else {
      draft.depend(t, draft.insert_wait(call, "copy from pageable memory"), 0, DependencyKind::kSync);
    }
  }
}

Status apply_dataloader(Model& m, Draft& draft, const Parameters& parameters) {
  const Graph& g = m.graph;
  const std::vector<Loading> loading = find_loading(m);
  if (loading.empty()) return fail(ErrorCode::kDeclined, "no DataLoader gives a batch within the step");
  const double workers = parameters.number("workers");
  const bool pinned = parameters.text("pin") != "0";
  // With a thread that pins, the main thread takes a batch that is ready from a queue; without it, it opens each tensor where a
  // worker left it.
  const auto tensors = static_cast<double>(std::max<std::size_t>(
      1, draft.select({.where = [&](std::uint32_t t) { return is_batch_copy(g, t); }}).size() / loading.size()));
  const Ns from_queue = m.cpu_time(m.host.loader.take_batch_us, Phase::kForward);
  const Ns from_worker =
      m.cpu_time(m.host.loader.open_batch_us + tensors * m.host.loader.open_tensor_us, Phase::kForward);
  const Ns take = pinned ? from_queue : from_worker;
  Selection gone;
  Ns batch = 0;  // of one worker's time
  Ns pinning_time = 0;
  for (const Loading& l : loading) {
    for (std::uint32_t t = g.lanes[g.main_lane].begin; t < g.lanes[g.main_lane].end; ++t) {
      const bool work = g.kind[t] == TaskKind::kCpu || g.kind[t] == TaskKind::kCall;
      if (work && g.phase[t] == Phase::kData && g.measured[t] >= l.begin && g.measured[t] < l.end) gone.push_back(t);
    }
    if (!l.in_workers) {
      const Ns pins = pinning(m, l);
      pinning_time += pins;
      batch += static_cast<Ns>(static_cast<double>(l.end - l.begin - pins) *
                               hardware::measured_figures(m.device).worker_slowdown);
    } else if (l.end - l.begin > from_queue + from_worker) {
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
  draft.insert_cpu(first, "take a batch", take * static_cast<Ns>(loading.size()), Phase::kData);
  draft.remove(gone);
  // While one step runs, the workers together make the next one's batch; the step cannot be shorter than that.
  const std::uint32_t lane = draft.add_lane(graph::GraphLaneKind::kCpu, "data-loader workers");
  const std::uint32_t made = draft.append(lane, TaskKind::kCpu, "a worker's share of a batch",
                                          static_cast<Ns>(static_cast<double>(batch) / workers), Phase::kData, {});
  const std::uint32_t wait = draft.insert_wait(g.lanes[g.main_lane].end - 1, "the next batch");
  draft.depend(made, wait, 0, DependencyKind::kThread);
  if (pinned && pinning_time > 0) {
    const std::uint32_t pins = draft.add_lane(graph::GraphLaneKind::kCpu, "the data loader's pinning thread");
    draft.depend(draft.append(pins, TaskKind::kCpu, "pin a batch", pinning_time, Phase::kData, {}), wait, 0,
                 DependencyKind::kThread);
  }
  copy_from(m, draft, pinned);
  return {};
}

void write_code(const ScriptPart& p, ScriptPlaces& to) {
  to.loader = fmt::format("    options.update(num_workers={:g}, pin_memory={}){}", p.parameters.number("workers"),
                          p.parameters.text("pin") == "0" ? "False" : "torch.cuda.is_available()", p.gain);
}

const Registered kRegistered(
    {.name = "dataloader",
     .about = "worker processes load the batches while the step before runs",
     .parameters = {{.name = "workers",
                     .about = "how many",
                     .default_value = "4",
                     .type = ParameterType::kNumber,
                     .check = whole_number<>},
                    {"pin", "pin_memory: a thread of the main process pins what workers load", "1", {"1", "0"}},
                    {.name = "now",
                     .about = "how many the trace was recorded with, where it waits for them",
                     .type = ParameterType::kNumber,
                     .check = whole_number<>}},
     .assumes = "as many free cores as workers; the mean over many steps, batches come in bursts",
     .source = "torch.utils.data.DataLoader(num_workers=…)",
     .not_modelled = "storage that is slower than the workers; workers that take cores from the main thread",
     .needs = {Need::kLoader},
     .changes = Changes::kInput,
     .code = "DataLoader(dataset, batch_size=…, num_workers=4, pin_memory=True)",
     .effort = Effort::kLine,
     .stage = Stage::kRuntime,
     .advise = {"dataloader"},
     .validated = true,
     .apply = apply_dataloader,
     .whole_program = "loading is not marked in XLA's profiles",
     .write_code = write_code,
     .unvalidated = {"pin=0"}});

}  // namespace
}  // namespace foretrace::whatif
