#include "whatif/rewrite/scaling.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/call_roles.hpp"
#include "hardware/cost.hpp"
#include "trace/latencies.hpp"
#include "whatif/model/backward_end.hpp"
#include "whatif/model/fitting.hpp"
#include "whatif/rewrite/decoding.hpp"
#include "whatif/rewrite/rows.hpp"
#include "whatif/rewrite/workspaces.hpp"

namespace foretrace::whatif {

namespace {

// A kernel has a fixed part, the time of one that does next to nothing; the rest grows with the data.
double linear(const Model& m, double was, double x) {
  const double floor = std::min(was, static_cast<double>(m.latencies->short_kernel));
  return floor + (was - floor) * x;
}

// Of the first tensor that an operation was given, which may be in a list: "[[[8, 1024, 1024]], [], []]" has 3; 0 where it is unknown.
std::size_t dimensions(const trace::Trace& trace, EventId op) {
  const trace::OpInputs* inputs = trace.args.inputs(trace.events.args[op.index()]);
  if (inputs == nullptr || !inputs->dims.valid()) return 0;
  const std::string_view text = trace.strings[inputs->dims];
  const std::size_t first = text.find_first_of("0123456789");
  if (first == std::string_view::npos) return 0;
  const std::string_view list = text.substr(first, text.find(']', first) - first);
  return 1 + static_cast<std::size_t>(std::count(list.begin(), list.end(), ','));
}

bool works_on_samples(Phase phase) { return phase != Phase::kOptimizer && phase != Phase::kCommunication; }

}  // namespace

bool moves_samples(const Model& m, std::uint32_t task) {
  const Graph& g = m.graph;
  // The last three are what a sharding put there.
  for (const std::string_view mark : {"SendRecv", "AllToAll", "alltoall", "all_to_all",
                                      "tensor parallel:", "context parallel:", "expert parallel:"}) {
    if (g.task_name(task).find(mark) != std::string_view::npos) return true;
  }
  if (m.trace == nullptr || !g.op[task].valid() || dimensions(*m.trace, g.op[task]) < 2) return false;
  const std::uint32_t end = end_of_backward(g);
  const TaskId call = g.launch[task];
  const bool behind_backward = end != kNone && call.valid() && g.lane[call.index()] == g.main_lane && call.value > end;
  return !behind_backward;
}

std::size_t scale_batch(Model& m, Draft& draft, double x) {
  const Graph& g = m.graph;
  const graph::StepNature nature = nature_of(m);
  std::size_t changed = 0;
  Ns all = 0;
  Ns shapeless = 0;
  std::uint32_t experts = kNone, unsure = kNone;  // descriptions of products whose growth is not known
  m.pass_samples *= x;
  if (m.memory) m.memory = BatchMemory(m).at(x);
  for (const Row& row : rows_of(m, draft)) {
    const work::Work work = m.works[row.work];
    if (!works_on_samples(row.phase) || work.of_parameters) continue;
    const work::Work becomes = with_batch(work, x);
    hardware::Cost cost = rescale_row(m, row, becomes);
    const bool known = cost.known && work.has_shape() && work.family != work::Family::kOther;
    shapeless += work.has_shape() ? 0 : row.time;
    all += row.time;
    const auto time = static_cast<double>(row.time);
    const std::optional<hardware::Cost> product = known ? std::nullopt : decoded_product(m, row, x);
    if (product && product->sigma > 0) {
      // Not knowing it, all of them err alike: they share a description.
      const bool expert = uses_experts(g.task_name(row.tasks.front()));
      std::uint32_t& alike = expert ? experts : unsure;
      if (alike == kNone) {
        alike = m.works.add(becomes);
        m.works.rows[alike].sigma = product->sigma;
      }
      for (const std::uint32_t t : row.tasks) {
        draft.set(t, static_cast<Ns>(static_cast<double>(draft.cost(t)) * product->ns / time), graph::Origin::kScaled);
        draft.set_work(t, alike);
      }
      ++changed;
      continue;
    }
    if (product) {
      cost = *product;
    } else if (!known) {
      cost.ns = linear(m, time, x);
    } else if (nature.infers()) {
      // No batch is small enough to multiply by weights that were not read; none takes longer for being smaller.
      cost.ns = std::max(cost.ns, std::min(time, times_run(m, row) * weight_reading_ns(work, m.device)));
      if (x < 1) cost.ns = std::min(cost.ns, time);
    }
    // For another number of sequences the library may pick another kernel: that is a model, not a measured time.
    cost.origin = product ? graph::Origin::kModelled : graph::Origin::kScaled;
    set_row(m, draft, row, cost, becomes);
    ++changed;
  }
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t]) || m.works.of(t) != nullptr || draft.removed(t) || !works_on_samples(g.phase[t]))
      continue;
    draft.set(t, static_cast<Ns>(linear(m, static_cast<double>(draft.cost(t)), x)), graph::Origin::kScaled);
    ++changed;
  }
  if (shapeless > all / 10) {
    m.not_modelled.emplace_back(nature.kind == graph::StepKind::kDecode
                                    ? "shapes, which the trace lacks: products read their weights whatever the batch, "
                                      "other kernels grow in proportion to it"
                                    : "shapes, which the trace lacks: kernels grow in proportion to the batch");
  }
  if (experts != kNone) {
    m.not_modelled.emplace_back(
        "how many experts the tokens of the new batch use: all weights, or in proportion to it");
  } else if (unsure != kNone) {
    m.not_modelled.emplace_back(
        "how many sequences the step has: products may read weights only, or grow with the batch");
  }
  // Without a backward pass all collectives move activations; small ones are latency, which stays.
  scale_collectives(m, draft, x, nature.infers() && x > 1);
  return changed;
}

void scale_collectives(Model& m, Draft& draft, double x, bool all) {
  const Graph& g = m.graph;
  bool any = false;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (g.kind[t] != TaskKind::kCollective || draft.removed(t)) continue;
    any = true;
    if (all || moves_samples(m, t))
      draft.set(t, static_cast<Ns>(linear(m, static_cast<double>(draft.cost(t)), x)), graph::Origin::kScaled);
  }
  if (any && !m.transfers_only)
    m.not_modelled.emplace_back("when the other ranks arrive at collectives with the new batch");
}

void scale_host(Model& m, Draft& draft, double factor) {
  draft.scale(draft.select({.where =
                                [&](std::uint32_t t) {
                                  return m.graph.kind[t] == TaskKind::kCpu || m.graph.kind[t] == TaskKind::kCall;
                                }}),
              factor);
  for (double& speed : m.base.speed) speed *= factor;
  for (Ns& launch : m.launches.cpu_per_launch) launch = std::llround(static_cast<double>(launch) * factor);
}

std::vector<bool> launch_calls(const graph::Graph& g) {
  std::vector<bool> calls(g.size());
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (!g.launch[t].valid()) continue;
    const auto call = static_cast<std::uint32_t>(g.launch[t].index());
    calls[call] = g.kind[call] == TaskKind::kCall && !graph::is_graph_launch(g.task_name(call));
  }
  return calls;
}

void change_driver(Model& m, Draft& draft, const host::DriverChange& change) {
  if (change.ratio == 1 && change.sigma == 0) return;
  const std::vector<bool> calls = launch_calls(m.graph);
  draft.scale(draft.select({.where = [&](std::uint32_t t) { return calls[t]; }}), change.ratio);
  const double before = m.host.reference.launch_call_us;
  host::change_driver(m.host, change.ratio);
  const double more_us = m.host.reference.launch_call_us - before;
  for (std::size_t p = 0; p < host::kCpuPhases; ++p) {
    m.launches.cpu_per_launch[p] += m.cpu_time(more_us, static_cast<host::CpuPhase>(p));
  }
  m.driver_sigma = std::hypot(m.driver_sigma, change.sigma);
}

}  // namespace foretrace::whatif
