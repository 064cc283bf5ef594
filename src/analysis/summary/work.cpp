// Phases, layers, operations and kernels of a step, from its graph.

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "analysis/names.hpp"
#include "analysis/summary/parts.hpp"

namespace foretrace::analysis {
namespace {

using graph::Phase;
using graph::TaskKind;
using trace::EventKind;

class WorkTables {
 public:
  WorkTables(const SummaryInput& in, SummaryReport& report)
      : in_(in), trace_(in.trace), g_(in.analysis->graph), report_(report) {
    collect_gpu();
  }

  void run() {
    flops_ = task_flops(in_, gpu_);
    totals();
    phases();
    layers();
    if (in_.own_events) operations();
    kernels();
  }

 private:
  /// GPU tasks of the step: launched in it, or without a launch anywhere. Work left over from before it is not.
  void collect_gpu() {
    std::unordered_set<std::int64_t> doubtful, elsewhere;
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (!graph::is_gpu(g_.kind[t])) continue;
      if (in_.own_events && !g_.launch[t].valid() && correlation(t) > 0) doubtful.insert(correlation(t));
      gpu_.push_back(t);
    }
    if (doubtful.empty()) return;
    for (std::size_t e = 0; e < trace_.size(); ++e) {
      if (trace_.kind(e) == EventKind::kRuntime && doubtful.contains(trace_.events.correlation[e])) {
        elsewhere.insert(trace_.events.correlation[e]);
      }
    }
    std::erase_if(gpu_, [&](std::uint32_t t) { return !g_.launch[t].valid() && elsewhere.contains(correlation(t)); });
  }

  [[nodiscard]] std::int64_t correlation(std::uint32_t t) const {
    return g_.event[t].valid() ? trace_.events.correlation[g_.event[t].index()] : trace::kAbsent;
  }
  [[nodiscard]] Ns duration(std::uint32_t t) const {
    return in_.own_events && g_.event[t].valid() ? trace_.events.duration[g_.event[t].index()] : g_.cost[t];
  }
  [[nodiscard]] bool is_work(std::uint32_t t) const {
    return g_.kind[t] == TaskKind::kCpu || g_.kind[t] == TaskKind::kCall;
  }

  void totals() {
    for (const std::uint32_t t : gpu_) {
      report_.gpu_time += duration(t);
      ++report_.gpu_events;
      const Ns from = std::max(g_.measured[t], in_.step.duration());
      report_.gpu_time_after_step += std::max<Ns>(0, g_.measured[t] + duration(t) - from);
    }
    report_.no_flops = flops_.no_flops;
    report_.no_peak = flops_.no_peak;
    report_.gpus = flops_.gpus;
    if (flops_.of_task.empty()) return;
    report_.flops.emplace();
    for (const std::uint32_t t : gpu_) count_flops(*report_.flops, t);
  }

  void count_flops(FlopCount& sum, std::uint32_t t) const {
    if (!flops_.of_task.empty()) sum += flops_.of_task[t];
  }

  void phases() {
    std::vector<SummaryReport::PhaseRow> rows(graph::kPhases);
    for (std::size_t p = 0; p < rows.size(); ++p) rows[p].name = to_string(static_cast<Phase>(p));
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (is_work(t)) rows[static_cast<std::size_t>(g_.phase[t])].cpu_time += g_.cost[t];
    }
    for (const std::uint32_t t : gpu_) {
      SummaryReport::PhaseRow& row = rows[static_cast<std::size_t>(g_.phase[t])];
      row.gpu_time += duration(t);
      ++row.gpu_events;
      count_flops(row.flops, t);
    }
    for (SummaryReport::PhaseRow& row : rows) {
      if (row.gpu_events > 0 || row.cpu_time > 0) report_.phases.push_back(std::move(row));
    }
  }

  void layers() {
    std::vector<SummaryReport::LayerRow> rows;
    for (const graph::Layer& layer : g_.layers) {
      SummaryReport::LayerRow row;
      row.name = g_.strings[layer.name];
      row.type = g_.strings[layer.type];
      row.synthetic = layer.synthetic;
      report_.named_layers += layer.synthetic ? 0u : 1u;
      rows.push_back(std::move(row));
    }
    // Work of no layer is listed by phase, so that the column adds up to the whole step.
    for (std::size_t p = 0; p < graph::kPhases; ++p) {
      SummaryReport::LayerRow row;
      row.name = no_layer_name(static_cast<Phase>(p));
      row.synthetic = true;
      rows.push_back(std::move(row));
    }
    const auto row_of = [&](std::uint32_t t) -> SummaryReport::LayerRow& {
      return rows[g_.layer[t].valid() ? g_.layer[t].index() : g_.layers.size() + static_cast<std::size_t>(g_.phase[t])];
    };
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (is_work(t)) row_of(t).cpu_time += g_.cost[t];
    }
    Ns covered = 0, named = 0;
    for (const std::uint32_t t : gpu_) {
      SummaryReport::LayerRow& row = row_of(t);
      Ns& part = g_.phase[t] == Phase::kForward    ? row.forward
                 : g_.phase[t] == Phase::kBackward ? row.backward
                                                   : row.other;
      part += duration(t);
      ++row.gpu_events;
      count_flops(row.flops, t);
      if (g_.layer[t].valid()) covered += duration(t);
      if (!row.synthetic) named += duration(t);
    }
    if (report_.gpu_time > 0) {
      report_.layer_coverage = static_cast<double>(covered) / static_cast<double>(report_.gpu_time);
      report_.named_coverage = static_cast<double>(named) / static_cast<double>(report_.gpu_time);
    }
    std::erase_if(rows, [](const auto& row) { return row.gpu_events == 0 && row.cpu_time == 0; });
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
      return a.gpu_time() != b.gpu_time() ? a.gpu_time() > b.gpu_time() : a.cpu_time > b.cpu_time;
    });
    report_.layers = std::move(rows);
  }

  /// The operation a task works for, a name of the trace; invalid when there is none, only a range that an old trace
  /// calls one, or only the call that follows.
  StringId operation(std::uint32_t t) {
    EventId op = g_.op[t];
    if (!op.valid() && graph::is_gpu(g_.kind[t]) && g_.event[t].valid()) {
      const auto at = op_of_id_.find(trace_.events.external_id[g_.event[t].index()]);
      if (at != op_of_id_.end()) op = at->second;
    }
    const bool is_op = op.valid() && trace_.kind(op.index()) != EventKind::kRuntime;
    return is_op ? trace_.events.name[op.index()] : StringId{};
  }

  struct OpTable {
    std::unordered_map<std::uint32_t, std::size_t> index;
    std::vector<SummaryReport::OpRow> rows;
    /// `key` distinguishes names; the text is made for new ones only.
    template <class Name>
    SummaryReport::OpRow& row(std::uint32_t key, Name name) {
      const auto [at, added] = index.try_emplace(key, rows.size());
      if (added) rows.push_back({name()});
      return rows[at->second];
    }
  };

  void operations() {
    OpTable ops, calls;  // a call outside any operation stands under its own name: "(cudaGraphLaunch)"
    const auto op_row = [&](StringId name) -> SummaryReport::OpRow& {
      return ops.row(name.value, [&] { return std::string(trace_.strings[name]); });
    };
    const auto call_row = [&](std::size_t call) -> SummaryReport::OpRow& {
      return calls.row(g_.name[call].value, [&] { return fmt::format("({})", g_.task_name(call)); });
    };
    for (std::size_t e = 0; e < trace_.size(); ++e) {
      const Ns start = trace_.events.start[e];
      if (trace_.kind(e) != EventKind::kOp || start < in_.step.start || start >= in_.step.end) continue;
      if (trace_.events.external_id[e] > 0) op_of_id_.try_emplace(trace_.events.external_id[e], EventId{e});
      ++op_row(trace_.events.name[e]).calls;
    }
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (!is_work(t)) continue;
      if (const StringId op = operation(t); op.valid()) {
        op_row(op).cpu_time += g_.cost[t];
      } else if (g_.event[t].valid() && trace_.kind(g_.event[t].index()) == EventKind::kRuntime) {
        call_row(t).cpu_time += g_.cost[t];
        call_row(t).calls += g_.kind[t] == TaskKind::kCall ? 1u : 0u;
      }
    }
    for (const std::uint32_t t : gpu_) {
      const StringId op = operation(t);
      SummaryReport::OpRow& row = op.valid()             ? op_row(op)
                                  : g_.launch[t].valid() ? call_row(g_.launch[t].index())
                                                         : calls.row(kNone, [] { return "(launch not recorded)"; });
      row.gpu_time += duration(t);
      ++row.gpu_events;
    }
    report_.ops = std::move(ops.rows);
    report_.ops.insert(report_.ops.end(), calls.rows.begin(), calls.rows.end());
    std::stable_sort(report_.ops.begin(), report_.ops.end(), [](const auto& a, const auto& b) {
      return a.gpu_time != b.gpu_time ? a.gpu_time > b.gpu_time : a.cpu_time > b.cpu_time;
    });
  }

  void kernels() {
    std::unordered_map<std::uint32_t, std::size_t> index;
    for (const std::uint32_t t : gpu_) {
      const auto [at, added] = index.try_emplace(g_.name[t].value, report_.kernels.size());
      if (added) {
        const bool copy = g_.kind[t] == TaskKind::kMemcpy || g_.kind[t] == TaskKind::kMemset;
        const std::string_view kind = copy ? to_string(g_.kind[t]) : std::string_view("kernel");
        report_.kernels.push_back({std::string(g_.task_name(t)), std::string(kind)});
      }
      SummaryReport::KernelRow& row = report_.kernels[at->second];
      ++row.launches;
      row.total += duration(t);
    }
    std::stable_sort(report_.kernels.begin(), report_.kernels.end(),
                     [](const auto& a, const auto& b) { return a.total > b.total; });
  }

  const SummaryInput& in_;
  const trace::Trace& trace_;
  const graph::Graph& g_;
  SummaryReport& report_;
  std::vector<std::uint32_t> gpu_;
  TaskFlops flops_;
  std::unordered_map<std::int64_t, EventId> op_of_id_;
};

}  // namespace

std::string no_layer_name(Phase phase) {
  const bool layered = phase == Phase::kForward || phase == Phase::kBackward;
  return fmt::format("({}{})", to_string(phase), layered ? ", no layer" : "");
}

void summarise_work(const SummaryInput& input, SummaryReport& report) { WorkTables(input, report).run(); }

namespace {

SimulatedParts simulated_parts(const ReplayedStep& a) {
  SimulatedParts out;
  out.breakdown = a.breakdown;
  out.bounds = a.bounds;
  out.path_length = a.path.size();

  const graph::Graph& g = a.graph;
  const auto layer_name = [&](std::uint32_t t) {
    return g.layer[t].valid() ? std::string(g.strings[g.layers[g.layer[t].index()].name]) : no_layer_name(g.phase[t]);
  };
  out.reasons.resize(graph::kDependencyKinds);
  std::unordered_map<std::string, std::size_t> index;
  std::vector<PathSegment> longest = a.path;
  for (const PathSegment& s : a.path) {
    SimulatedStep::Reason& reason = out.reasons[static_cast<std::size_t>(s.why)];
    reason.name = to_string(s.why);
    ++reason.count;
    reason.wait += s.wait;
    const auto [at, added] = index.try_emplace(layer_name(s.task), out.path_layers.size());
    if (added) out.path_layers.push_back({at->first});
    out.path_layers[at->second].time += s.work;
    ++out.path_layers[at->second].tasks;
  }
  std::erase_if(out.reasons, [](const auto& r) { return r.count == 0; });
  std::stable_sort(out.reasons.begin(), out.reasons.end(),
                   [](const auto& x, const auto& y) { return x.count > y.count; });
  std::stable_sort(out.path_layers.begin(), out.path_layers.end(),
                   [](const auto& x, const auto& y) { return x.time > y.time; });
  std::stable_sort(longest.begin(), longest.end(), [](const auto& x, const auto& y) { return x.work > y.work; });
  longest.resize(std::min(longest.size(), SimulatedStep::kPathTasks));
  for (const PathSegment& s : longest) {
    out.path_tasks.push_back({s.task, std::string(g.task_name(s.task)), std::string(to_string(g.kind[s.task])),
                              std::string(g.strings[g.lanes[g.lane[s.task]].name]), layer_name(s.task),
                              std::string(to_string(g.phase[s.task])), s.work});
  }
  return out;
}

}  // namespace

SimulatedStep summarise_simulation(const trace::Trace& trace, const ReplayedStep& a, std::optional<Ns> measured,
                                   const host::CpuPrior& prior) {
  SimulatedStep out;
  static_cast<SimulatedParts&>(out) = simulated_parts(a);
  out.replayed = a.replayed();
  out.error_pct = a.error_pct();
  if (a.graph.periodic && a.graph.period > 0) out.period = a.graph.period;
  out.outlasts = a.graph.periodic && a.graph.period <= 0 && out.replayed > a.graph.traced;
  out.measured = measured;
  out.unprofiled = host::unprofiled(a.graph, measured, prior);
  graph::Graph clean = host::apply(a.graph, out.unprofiled.factors, prior);
  out.verdict = step_verdict(trace, a.graph, clean);
  out.without_profiler = simulated_parts(replay_step(std::move(clean)));
  return out;
}

}  // namespace foretrace::analysis
