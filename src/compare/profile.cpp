// Reads the work of a step. Items are identified by kernel, operation, layer, phase and sizes, never by time or order, so that both sides
// of a comparison find each other's.

#include "compare/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/host/measured_step.hpp"
#include "work/op_names.hpp"

namespace foretrace::compare {
namespace {

using graph::Graph;
using graph::TaskKind;

// Steps read in addition to the one shown: their kernels are averaged. More steps add little, and each needs a graph.
constexpr std::size_t kSteps = 4;

class Collector {
 public:
  Collector(const trace::Trace& trace, Profile& out) : t_(trace), out_(out) {}

  void add(const Graph& g, const work::Works& works, double share) {
    find_overlapping(g);
    for (std::uint32_t k = 0; k < g.size(); ++k) {
      if (graph::is_gpu(g.kind[k])) {
        // Work that an earlier step left behind has no launch in this one.
        if (!g.launch[k].valid() && launched_earlier(g, k)) continue;
        gpu(g, works, k, share);
      } else if (g.kind[k] == TaskKind::kCpu || g.kind[k] == TaskKind::kCall) {
        cpu(g, k, share);
      }
    }
  }

 private:
  // Tasks that ran while a task of another stream did.
  void find_overlapping(const Graph& g) {
    overlaps_.assign(g.size(), 0);
    std::vector<std::uint32_t> order;
    for (std::uint32_t k = 0; k < g.size(); ++k) {
      if (graph::is_gpu(g.kind[k])) order.push_back(k);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return g.measured[a] < g.measured[b]; });
    std::uint32_t last = kNone;  // the task that ends last of those before
    for (const std::uint32_t k : order) {
      if (last != kNone && g.lane[last] != g.lane[k] && g.measured[k] < g.measured[last] + g.cost[last]) {
        overlaps_[k] = overlaps_[last] = 1;
      }
      if (last == kNone || g.measured[k] + g.cost[k] > g.measured[last] + g.cost[last]) last = k;
    }
  }

  [[nodiscard]] bool launched_earlier(const Graph& g, std::uint32_t k) {
    if (!g.event[k].valid()) return false;
    if (!indexed_) {
      indexed_ = true;
      for (std::size_t e = 0; e < t_.size(); ++e) {
        if (t_.kind(e) == trace::EventKind::kRuntime) calls_.insert(t_.events.correlation[e]);
      }
    }
    const std::int64_t id = t_.events.correlation[g.event[k].index()];
    return id > 0 && calls_.contains(id);
  }

  [[nodiscard]] std::string_view op(const Graph& g, std::uint32_t k) const {
    return g.op[k].valid() && t_.kind(g.op[k].index()) != trace::EventKind::kRuntime ? t_.name(g.op[k].index())
                                                                                     : std::string_view();
  }

  void gpu(const Graph& g, const work::Works& works, std::uint32_t k, double share) {
    const work::Work* w = works.of(k);
    const std::string_view layer = g.layer[k].valid() && !g.layers[g.layer[k].index()].synthetic
                                       ? g.strings[g.layers[g.layer[k].index()].name]
                                       : std::string_view();
    std::string_view made = op(g, k);
    if (made.empty() && w != nullptr && w->op_event != kNone) made = t_.name(w->op_event);
    const std::string shape = w != nullptr && w->has_shape()
                                  ? fmt::format("{:.6g} {:.6g} {:.6g}", w->flops, w->bytes_read, w->bytes_written)
                                  : "";
    const std::string_view name = g.task_name(k);
    std::string key = fmt::format("{}|{}|{}|{}|{}", name, made, layer, static_cast<int>(g.phase[k]), shape);
    const auto [at, added] = out_.gpu.try_emplace(std::move(key));
    GpuItem& item = at->second;
    if (added) {
      item = {std::string(name),
              std::string(made),
              std::string(layer),
              shape,
              g.phase[k],
              g.kind[k] == TaskKind::kCollective                                 ? work::Family::kCommunication
              : g.kind[k] == TaskKind::kMemcpy || g.kind[k] == TaskKind::kMemset ? work::Family::kMemory
              : w != nullptr && w->family != work::Family::kOther                ? w->family
                                                                                 : work::family_of_kernel(name),
              false,
              false,
              0,
              0};
      item.from_host = g.kind[k] == TaskKind::kMemcpy &&
                       (name.find("HtoD") != std::string_view::npos || name.find("DtoH") != std::string_view::npos);
    }
    item.overlaps |= overlaps_[k] != 0;
    const Ns measured = g.event[k].valid() ? t_.events.duration[g.event[k].index()] : g.cost[k];
    item.ns += share * static_cast<double>(measured);
    item.count += share;
    out_.gpu_ns += share * static_cast<double>(measured);
    out_.launches += share;
  }

  void cpu(const Graph& g, std::uint32_t k, double share) {
    const std::string_view name = op(g, k).empty() ? std::string_view("(outside operations)") : op(g, k);
    CpuItem& item = out_.cpu[fmt::format("{}|{}", name, static_cast<int>(g.phase[k]))];
    item.op = name;
    item.phase = g.phase[k];
    item.ns += share * static_cast<double>(g.cost[k]);
    item.count += share;
    out_.cpu_ns += share * static_cast<double>(g.cost[k]);
  }

  const trace::Trace& t_;
  Profile& out_;
  std::vector<char> overlaps_;  // by task of the graph at hand
  bool indexed_ = false;
  std::unordered_set<std::int64_t> calls_;
};

// Calls that wait for the GPU, however many tasks each waits for.
std::uint64_t waits_in(const Graph& g) {
  std::unordered_set<std::uint32_t> waiting;
  for (std::size_t d = 0; d < g.dependencies(); ++d) {
    if (g.dep_kind[d] == graph::DependencyKind::kSync) waiting.insert(g.dep_to[d]);
  }
  return waiting.size();
}

// The chosen step, then those whose length is nearest to it.
std::vector<std::size_t> nearest(const trace::Steps& steps, std::size_t chosen) {
  std::vector<std::size_t> order(steps.steps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const Ns length = steps.steps[chosen].duration();
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if ((a == chosen) != (b == chosen)) return a == chosen;
    return std::abs(steps.steps[a].duration() - length) < std::abs(steps.steps[b].duration() - length);
  });
  order.resize(std::min(order.size(), kSteps));
  return order;
}

}  // namespace

Result<Profile> profile(const trace::Trace& trace, std::optional<std::int64_t> number,
                        const host::UserMeasurements& measurements) {
  Profile out;
  out.file = trace.path;
  if (trace.distributed.present && trace.distributed.rank >= 0) out.rank = trace.distributed.rank;
  FORETRACE_TRY(const analysis::StepGraphs graphs, analysis::StepGraphs::open(trace, trace::find_steps(trace)));
  const trace::Steps& steps = graphs.steps();
  FORETRACE_TRY(const std::size_t chosen, graphs.choose(number));
  std::vector<Graph> built;
  for (const std::size_t index : number ? std::vector<std::size_t>{chosen} : nearest(steps, chosen)) {
    if (index != chosen && graphs.cold(index)) continue;
    Result<Graph> graph = graphs.graph(index);
    if (!graph && index == chosen) return tl::unexpected(graph.error());
    // A step cut off by the end of the recording is shorter than the others: it would halve every average.
    if (graph && (built.empty() || graph->size() * 10 > built.front().size() * 9)) built.push_back(std::move(*graph));
  }
  const Graph& main = built.front();
  out.step_name = main.step_name;
  Collector collector(trace, out);
  for (const Graph& graph : built) {
    collector.add(graph, work::describe(trace, graph), 1.0 / static_cast<double>(built.size()));
  }
  out.traits = traits_of(trace, steps.steps[chosen], main, work::describe(trace, main));
  out.syncs = waits_in(main);
  for (std::size_t i = 0; i < steps.steps.size(); ++i) {
    if (!graphs.cold(i)) out.traced_ns.push_back(static_cast<double>(steps.steps[i].duration()));
  }
  if (out.traced_ns.empty()) out.traced_ns = {static_cast<double>(main.traced)};
  if (main.periodic && main.period > 0) out.traced_ns = {static_cast<double>(main.period)};
  if (number) out.traced_ns = {static_cast<double>(steps.steps[chosen].duration())};
  out.traced_graph = std::make_shared<const Graph>(main);
  if (auto match = hardware::device_of(trace)) out.device = match->device.name;
  if (graphs.embedded()) return out;
  Result<analysis::Baseline> baseline = analysis::make_baseline(trace, steps.steps[chosen], main, measurements);
  if (!baseline) {
    if (measurements.measured_ms) return tl::unexpected(baseline.error());
    return out;
  }
  out.clean = baseline->figures.measured;
  out.measured_by_user = measurements.measured_ms.has_value();
  out.peak_bytes = baseline->figures.peak_bytes;
  out.clean_graph = std::make_shared<const Graph>(baseline->model.graph);
  FORETRACE_TRY(const host::Measured known, host::measured_step(trace, main, baseline->figures.replayed, measurements));
  out.estimated = known.step ? host::unprofiled(main, std::nullopt, known.prior).step : baseline->figures.unprofiled;
  out.bottleneck = baseline->figures.verdict.unprofiled;
  if (out.clean && !out.measured_by_user) {
    const host::RecorderFigures recorded = host::recorder_figures(trace);
    for (const double ms : recorded.step_ms) out.clean_ns.push_back(1e6 * ms);
    if (recorded.peak_bytes) out.peak_bytes = recorded.peak_bytes;
  }
  return out;
}

}  // namespace foretrace::compare
