#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "bindings.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "views.hpp"

namespace nb = nanobind;

namespace foretrace::python {

namespace {

using graph::DependencyKind;
using graph::Graph;
using Costs = nb::ndarray<const Ns, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// A simulated step. Its columns have one entry per task of the graph; where the step was repeated they show the last
/// copy, on a clock that starts with it.
struct SimulatedStep {
  const Graph* graph = nullptr;  // kept alive by Python
  std::vector<Ns> cost;          // other than the graph's; empty: its own
  simulate::SteadyState state;
  Ns begin = 0;  ///< of the last copy, on the simulated clock
  Column<Ns> start, end;
  Column<std::uint32_t> cause;
  Column<DependencyKind> cause_kind;

  [[nodiscard]] const Graph& simulated() const { return state.graph_of(*graph); }

  /// The place of a task's last copy in the timeline, and the task behind a place.
  [[nodiscard]] std::uint32_t last_copy(std::uint32_t task) const {
    const graph::GraphLane& lane = graph->lanes[graph->lane[task]];
    return lane.begin * state.copies + (state.copies - 1) * (lane.end - lane.begin) + (task - lane.begin);
  }
  [[nodiscard]] std::uint32_t task_at(std::uint32_t place) const {
    const graph::GraphLane& lane = graph->lanes[simulated().lane[place]];
    return lane.begin + (place - lane.begin * state.copies) % (lane.end - lane.begin);
  }
  [[nodiscard]] bool in_last_copy(std::uint32_t place) const { return last_copy(task_at(place)) == place; }
};

nb::object timeline_column(nb::handle self, std::string_view name) {
  const SimulatedStep& s = nb::cast<const SimulatedStep&>(self);
  const bool repeated = s.state.copies > 1;
  const simulate::Timeline& t = s.state.timeline;
  const auto show = [&](const auto& own, const auto& last) {
    return repeated ? view(self, last.data(), last.size()) : view(self, own.data(), own.size());
  };
  if (name == "start") return show(t.start, s.start);
  if (name == "end") return show(t.end, s.end);
  if (name == "cause") return show(t.cause, s.cause);
  if (name == "cause_kind") return show(t.cause_kind, s.cause_kind);
  throw nb::key_error(std::string(name).c_str());
}

void show_last_copy(SimulatedStep& s) {
  const simulate::Timeline& t = s.state.timeline;
  const auto n = static_cast<std::uint32_t>(s.graph->size());
  s.begin = t.start[s.last_copy(s.graph->lanes[s.graph->main_lane].begin)];
  for (std::uint32_t task = 0; task < n; ++task) {
    const std::uint32_t place = s.last_copy(task);
    s.start.push_back(t.start[place] - s.begin);
    s.end.push_back(t.end[place] - s.begin);
    const std::uint32_t by = t.cause[place];
    const bool here = by != kNone && s.in_last_copy(by);
    s.cause.push_back(here ? s.task_at(by) : kNone);
    s.cause_kind.push_back(t.cause_kind[place]);
  }
}

SimulatedStep* simulate_step(const Graph& g, const std::optional<Costs>& cost) {
  const std::span<const Ns> costs = cost ? std::span<const Ns>(cost->data(), cost->size()) : std::span<const Ns>();
  if (cost && costs.size() != g.size()) throw nb::value_error("one cost per task is needed");
  nb::gil_scoped_release unlocked;
  auto s = std::make_unique<SimulatedStep>();
  s->graph = &g;
  s->cost.assign(costs.begin(), costs.end());
  s->state = simulate::steady_state(g, {s->cost, nullptr});
  if (s->state.copies > 1) show_last_copy(*s);
  return s.release();
}

/// The critical path inside the step's period, cut into waiting and working without overlap: together they are the step.
nb::tuple critical_path(const SimulatedStep& s) {
  Column<std::uint32_t> task;
  Column<DependencyKind> why;
  Column<Ns> start, wait, work;
  Column<std::uint8_t> before;
  {
    nb::gil_scoped_release unlocked;
    const simulate::Timeline& t = s.state.timeline;
    Ns at = t.copy_ends.size() > 1 ? t.copy_ends[t.copy_ends.size() - 2] : 0;
    for (const simulate::PathStep& step : simulate::critical_path(s.simulated(), t)) {
      const Ns begin = t.start[step.task], end = t.end[step.task];
      if (end < at || (end == at && begin < end)) continue;
      const Ns from = std::max(begin, at);
      task.push_back(s.task_at(step.task));
      why.push_back(step.why);
      start.push_back(from - s.begin);
      wait.push_back(std::max<Ns>(0, begin - at));
      work.push_back(end - from);
      before.push_back(s.in_last_copy(step.task) ? 0 : 1);
      at = end;
    }
  }
  return nb::make_tuple(give(std::move(task)), give(std::move(why)), give(std::move(start)), give(std::move(wait)),
                        give(std::move(work)), give(std::move(before)));
}

nb::dict breakdown(const SimulatedStep& s) {
  const simulate::Breakdown b = [&] {
    nb::gil_scoped_release unlocked;
    return simulate::breakdown(s.simulated(), s.state.timeline);
  }();
  nb::dict d;
  d["step"] = b.step;
  d["cpu_only"] = b.cpu_only;
  d["gpu_only"] = b.gpu_only;
  d["both"] = b.both;
  d["exposed_communication"] = b.exposed_communication;
  d["exposed_loading"] = b.exposed_loading;
  d["idle"] = b.idle;
  d["gpu_busy"] = b.gpu_busy;
  d["cpu_busy"] = b.cpu_busy;
  d["communication"] = b.communication;
  nb::dict causes;
  for (std::size_t k = 0; k < graph::kDependencyKinds; ++k) {
    if (b.gpu_idle_by_cause[k] > 0) causes[to_str(to_string(static_cast<DependencyKind>(k)))] = b.gpu_idle_by_cause[k];
  }
  d["gpu_idle_by_cause"] = causes;
  d["path_cpu"] = b.path_cpu;
  d["path_gpu"] = b.path_gpu;
  d["path_communication"] = b.path_communication;
  d["path_waits"] = b.path_waits;
  const simulate::Bottleneck bound = [&] {
    nb::gil_scoped_release unlocked;
    return simulate::bottleneck(*s.graph, {s.cost, nullptr});
  }();
  d["bottleneck"] = to_str(bound.sentence());
  d["bound_by"] = to_str(to_string(bound.by));
  return d;
}

}  // namespace

void bind_timeline(nb::module_& m) {
  nb::class_<SimulatedStep>(m, "Timeline")
      .def("column", timeline_column)
      .def("step", [](const SimulatedStep& s) { return s.state.timeline.step; })
      .def("copies", [](const SimulatedStep& s) { return s.state.copies; })
      .def("settled", [](const SimulatedStep& s) { return s.state.settled; })
      .def("critical_path", critical_path)
      .def("breakdown", breakdown);
  m.def("simulate", simulate_step, nb::arg("graph"), nb::arg("cost").none(), nb::keep_alive<0, 1>());
}

}  // namespace foretrace::python
