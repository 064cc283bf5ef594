#include <fmt/format.h>

#include <algorithm>

#include "graph/loading.hpp"
#include "hardware/figures.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/op_chains.hpp"
#include "whatif/model/script.hpp"
#include "whatif/model/whole_number.hpp"
#include "whatif/rewrite/loading.hpp"
#include "whatif/rewrite/scaling.hpp"

namespace foretrace::whatif {
namespace {

// Of what the main thread did for a batch, the copy into pinned memory: with workers a thread of the main process does it.
Ns pinning(const Model& m, const Draft& draft, const LoadedBatch& batch) {
  const Graph& g = m.graph;
  Ns sum = 0;
  for (const std::uint32_t t : batch.tasks) {
    if (g.op[t].valid() && m.trace->name(m.chains->outermost(g.op[t].value)) == "aten::pin_memory")
      sum += draft.cost(t);
  }
  return sum;
}

// Another number of workers where the step waits for those it has: together they make a batch in the time of a step.
Status change_workers(const Model& m, Draft& draft, const Parameters& parameters, std::uint32_t lane) {
  const bool added = std::any_of(m.applied.begin(), m.applied.end(),
                                 [](const Model::Applied& before) { return before.changes == Changes::kInput; });
  if (added) return fail(ErrorCode::kDeclined, "an earlier change already gave the step its workers");
  const double now =
      parameters.given("now") ? parameters.number("now") : static_cast<double>(recorded_workers(*m.trace));
  if (now <= 0) {
    return fail(
        ErrorCode::kDeclined,
        "the step waits for its workers, and the trace does not show how many there are: give their number with now=…");
  }
  const graph::GraphLane& workers = m.graph.lanes[lane];
  for (std::uint32_t t = workers.begin; t < workers.end; ++t) {
    const double all = static_cast<double>(draft.cost(t)) * now;
    draft.set(t, static_cast<Ns>(all / parameters.number("workers")), graph::Origin::kScaled);
  }
  return {};
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
  if (const std::uint32_t lane = graph::workers_lane(g); lane != kNone)
    return change_workers(m, draft, parameters, lane);
  const std::vector<LoadedBatch> loading = loaded_batches(m, draft);
  if (loading.empty()) return fail(ErrorCode::kDeclined, "no DataLoader gives a batch within the step");
  const double workers = parameters.number("workers");
  const bool pinned = parameters.text("pin") != "0";
  const bool first_workers =
      std::none_of(loading.begin(), loading.end(), [](const LoadedBatch& l) { return l.in_workers; });
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
  for (const LoadedBatch& l : loading) {
    gone.insert(gone.end(), l.tasks.begin(), l.tasks.end());
    if (!l.in_workers) {
      const Ns pins = pinning(m, draft, l);
      pinning_time += pins;
      batch +=
          static_cast<Ns>(static_cast<double>(l.time - pins) * hardware::measured_figures(m.device).worker_slowdown);
    } else if (l.time > from_queue + from_worker) {
      // Workers that are waited for make one batch per step, all of them together.
      const double now =
          parameters.given("now") ? parameters.number("now") : static_cast<double>(recorded_workers(*m.trace));
      if (now <= 0) {
        return fail(ErrorCode::kDeclined,
                    "the step waits for its workers, and the trace does not show how many there are: give their number "
                    "with now=…");
      }
      batch += static_cast<Ns>(static_cast<double>(g.traced) * now);
    }
  }
  if (first_workers) scale_host(m, draft, m.host.loader.slower_with_workers);
  if (batch == 0) return fail(ErrorCode::kDeclined, "the batch is always ready: more workers change nothing");
  std::uint32_t first = gone.empty() ? g.lanes[g.main_lane].begin : gone.front();
  if (first > g.lanes[g.main_lane].begin) --first;
  draft.insert_cpu(first, "take a batch", take * static_cast<Ns>(loading.size()), Phase::kData);
  draft.remove(gone);
  // While one step runs, the workers together make the next one's batch; the step cannot be shorter than that.
  const std::uint32_t lane = draft.add_lane(graph::GraphLaneKind::kCpu, std::string(graph::kWorkersLaneName));
  draft.added_lane(lane).role = graph::LaneRole::kLoaderWorkers;
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

std::string code_for(const Parameters& p, bool /*training*/) {
  return fmt::format("DataLoader(dataset, batch_size=…, num_workers={:g}, pin_memory={})", p.number("workers"),
                     p.text("pin") == "0" ? "False" : "True");
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
                     .about =
                         "how many the trace was recorded with, where it waits for them; by default those it shows",
                     .type = ParameterType::kNumber,
                     .check = whole_number<>}},
     .assumes = "as many free cores as workers; the mean over many steps, batches come in bursts",
     .source = "torch.utils.data.DataLoader(num_workers=…)",
     .not_modelled = "storage that is slower than the workers; fewer free cores than workers",
     .needs = {Need::kLoader},
     .changes = Changes::kInput,
     .code = "DataLoader(dataset, batch_size=…, num_workers=4, pin_memory=True)",
     .code_for = code_for,
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
