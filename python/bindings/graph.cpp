#include "foretrace/graph/graph.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <type_traits>

#include "bindings.hpp"
#include "foretrace/graph/build.hpp"
#include "foretrace/report/replay.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/whatif/unprofiled.hpp"
#include "report/step_graphs.hpp"

namespace nb = nanobind;

namespace foretrace::python {

namespace {

using graph::DependencyKind;
using graph::Graph;
using report::StepGraphs;
using Costs = nb::ndarray<const Ns, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// A simulated step. Its columns have one entry per task of the graph; where the step was repeated they show the last
/// copy, on a clock that starts with it.
struct SimulatedStep {
  const Graph* graph = nullptr;  // kept alive by Python
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

// -- columns

/// What a value of a column is in NumPy: ids and enumerations are the integers behind them.
template <class T>
struct Plain {
  using type = T;
};
template <class Tag>
struct Plain<Id<Tag>> {
  using type = std::uint32_t;
};
template <class T>
  requires std::is_enum_v<T>
struct Plain<T> {
  using type = std::underlying_type_t<T>;
};

/// A read-only NumPy array over memory of `owner`, which it keeps alive.
template <class T>
nb::object view(nb::handle owner, const T* data, std::size_t size) {
  using Value = typename Plain<T>::type;
  static_assert(sizeof(Value) == sizeof(T));
  static const Value kNothing{};
  const Value* values = size == 0 ? &kNothing : reinterpret_cast<const Value*>(data);
  return nb::cast(nb::ndarray<nb::numpy, const Value, nb::ndim<1>>(values, {size}, owner));
}

/// A column that NumPy owns from now on.
template <class T>
nb::object give(Column<T>&& column) {
  auto* kept = new Column<T>(std::move(column));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Column<T>*>(p); });
  return view(owner, kept->data(), kept->size());
}

template <auto kMember>
nb::object column_of(nb::handle self) {
  const auto& column = nb::cast<const Graph&>(self).*kMember;
  return view(self, column.data(), column.size());
}

struct NamedColumn {
  std::string_view name;
  nb::object (*get)(nb::handle);
};
constexpr NamedColumn kColumns[] = {
    {"kind", column_of<&Graph::kind>},           {"cost", column_of<&Graph::cost>},
    {"lane_lag", column_of<&Graph::lane_lag>},   {"lane", column_of<&Graph::lane>},
    {"name", column_of<&Graph::name>},           {"phase", column_of<&Graph::phase>},
    {"layer", column_of<&Graph::layer>},         {"launch", column_of<&Graph::launch>},
    {"event", column_of<&Graph::event>},         {"op", column_of<&Graph::op>},
    {"measured", column_of<&Graph::measured>},   {"share", column_of<&Graph::soft>},
    {"origin", column_of<&Graph::origin>},       {"dep_begin", column_of<&Graph::dep_begin>},
    {"dep_to", column_of<&Graph::dep_to>},       {"dep_lag", column_of<&Graph::dep_lag>},
    {"dep_point", column_of<&Graph::dep_point>}, {"dep_kind", column_of<&Graph::dep_kind>},
};

nb::object graph_column(nb::handle self, std::string_view name) {
  for (const NamedColumn& c : kColumns) {
    if (c.name == name) return c.get(self);
  }
  throw nb::key_error(std::string(name).c_str());
}

/// Rows of soft_dependencies as bytes; Python gives them their record type.
nb::object shares(nb::handle self) {
  static_assert(sizeof(graph::SoftDependency) == 24);
  const auto& rows = nb::cast<const Graph&>(self).soft_dependencies;
  return view(self, reinterpret_cast<const std::uint8_t*>(rows.data()), rows.size() * sizeof(graph::SoftDependency));
}

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

// -- tables

template <class Enum>
nb::tuple names_of(std::size_t count) {
  nb::list list;
  for (std::size_t i = 0; i < count; ++i) list.append(to_str(to_string(static_cast<Enum>(i))));
  return nb::tuple(list);
}

template <class Tag>
nb::object optional_index(Id<Tag> id) {
  return id.valid() ? nb::object(nb::int_(id.index())) : nb::none();
}

nb::str text_of(const Graph& g, StringId id) { return to_str(id.valid() ? g.strings[id] : std::string_view()); }

nb::list lanes(const Graph& g) {
  static constexpr const char* kKinds[] = {"cpu", "gpu", "network"};
  const auto known = [](std::int64_t value) { return value < 0 ? nb::none() : nb::object(nb::int_(value)); };
  nb::list list;
  for (std::size_t i = 0; i < g.lanes.size(); ++i) {
    const graph::GraphLane& lane = g.lanes[i];
    nb::dict d;
    d["index"] = i;
    d["kind"] = kKinds[static_cast<std::size_t>(lane.kind)];
    d["name"] = text_of(g, lane.name);
    d["begin"] = lane.begin;
    d["end"] = lane.end;
    d["trace_lane"] = optional_index(lane.trace_lane);
    d["device"] = known(lane.device);
    d["stream"] = known(lane.stream);
    d["queue_depth"] = lane.queue_depth == 0 ? nb::none() : nb::object(nb::int_(lane.queue_depth));
    d["queue_lag"] = lane.queue_lag;
    list.append(d);
  }
  return list;
}

nb::list layers(const Graph& g) {
  nb::list list;
  for (std::size_t i = 0; i < g.layers.size(); ++i) {
    nb::dict d;
    d["index"] = i;
    d["name"] = text_of(g, g.layers[i].name);
    d["type"] = text_of(g, g.layers[i].type);
    d["synthetic"] = g.layers[i].synthetic;
    list.append(d);
  }
  return list;
}

nb::dict notes(const Graph& g) {
  const Graph::Notes& n = g.notes;
  nb::dict d;
  d["refuted_waits"] = n.refuted_waits;
  d["unexplained_lags"] = n.unexplained_lags;
  d["unexplained_time"] = n.unexplained_time;
  d["orphans"] = n.orphans;
  d["early_kernels"] = n.early_kernels;
  d["dropped_shares"] = n.dropped_soft;
  d["border_tasks"] = n.border_tasks;
  d["foreign_events"] = n.foreign_events;
  d["queue_depth_measured"] = n.queue_depth_measured;
  nb::list sentences;
  for (const std::string& sentence : report::sentences(n)) sentences.append(to_str(sentence));
  d["sentences"] = nb::tuple(sentences);
  return d;
}

nb::list string_list(const Graph& g) {
  nb::list list;
  for (std::size_t i = 0; i < g.strings.size(); ++i) list.append(to_str(g.strings[StringId{i}]));
  return list;
}

// -- building

StepGraphs* open_graphs(const LoadedTrace& loaded) {
  auto opened = [&] {
    nb::gil_scoped_release unlocked;
    return StepGraphs::open(loaded.trace, loaded.steps);
  }();
  return new StepGraphs(value_or_raise(std::move(opened)));
}

std::size_t step_index(const StepGraphs& graphs, std::optional<std::int64_t> number) {
  if (number) return value_or_raise(graphs.steps().by_number(*number));
  if (graphs.steps().steps.empty()) {
    raise({ErrorCode::kDeclined, "the trace has no timed event, and so no step", {}, Error::kNoOffset, {}});
  }
  return graphs.steps().median();
}

Graph* build(const StepGraphs& graphs, std::size_t index, const std::vector<std::uint8_t>& without, bool device_gaps,
             bool strict) {
  graph::BuildOptions options{.without = {}, .device_gaps = device_gaps, .strict = strict};
  for (const std::uint8_t kind : without) options.without.insert(static_cast<DependencyKind>(kind));
  auto built = [&] {
    nb::gil_scoped_release unlocked;
    return graphs.graph(index, options);
  }();
  return new Graph(value_or_raise(std::move(built)));
}

Graph* parse(std::string_view text) {
  auto parsed = [&]() -> Result<Graph> {
    nb::gil_scoped_release unlocked;
    FORETRACE_TRY(Graph g, graph::parse(text));
    FORETRACE_TRY_VOID(graph::verify(g));
    return g;
  }();
  return new Graph(value_or_raise(std::move(parsed)));
}

// -- simulating

void show_last_copy(SimulatedStep& s) {
  const simulate::Timeline& t = s.state.timeline;
  const auto n = static_cast<std::uint32_t>(s.graph->size());
  s.begin = t.start[s.last_copy(s.graph->lanes[s.graph->main_lane].begin)];
  for (std::uint32_t task = 0; task < n; ++task) {
    const std::uint32_t place = s.last_copy(task);
    s.start.push_back(t.start[place] - s.begin);
    s.end.push_back(t.end[place] - s.begin);
    const std::uint32_t by = t.cause[place];
    const bool here = by != simulate::Timeline::kNoCause && s.in_last_copy(by);
    s.cause.push_back(here ? s.task_at(by) : simulate::Timeline::kNoCause);
    s.cause_kind.push_back(t.cause_kind[place]);
  }
}

SimulatedStep* simulate_step(const Graph& g, const std::optional<Costs>& cost) {
  const std::span<const Ns> costs = cost ? std::span<const Ns>(cost->data(), cost->size()) : std::span<const Ns>();
  if (cost && costs.size() != g.size()) throw nb::value_error("one cost per task is needed");
  nb::gil_scoped_release unlocked;
  auto s = std::make_unique<SimulatedStep>();
  s->graph = &g;
  s->state = simulate::steady_state(g, {costs, nullptr});
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
  d["bottleneck"] = to_str(simulate::bottleneck(b));
  return d;
}

nb::tuple lower_bounds(const Graph& g) {
  const simulate::LowerBounds bounds = [&] {
    nb::gil_scoped_release unlocked;
    return simulate::lower_bounds(g);
  }();
  return nb::make_tuple(bounds.no_gpu, bounds.no_network, bounds.no_cpu);
}

nb::dict unprofiled(const Graph& g, std::optional<Ns> measured) {
  const whatif::Unprofiled u = [&] {
    nb::gil_scoped_release unlocked;
    return whatif::unprofiled(g, measured);
  }();
  const auto by_part = [](double forward, double backward, double optimizer, double gpu) {
    nb::dict d;
    d["forward"] = forward;
    d["backward"] = backward;
    d["optimizer"] = optimizer;
    d["gpu"] = gpu;
    return d;
  };
  nb::dict d;
  d["step"] = u.step;
  d["low"] = u.low;
  d["high"] = u.high;
  d["calibrated"] = u.calibrated;
  d["origin"] = to_str(u.origin);
  d["factors"] = by_part(u.factors.phase[0], u.factors.phase[1], u.factors.phase[2], u.factors.gpu);
  d["sigma"] = by_part(u.sigma[0], u.sigma[1], u.sigma[2], u.sigma[3]);
  return d;
}

Graph* apply_factors(const Graph& g, double forward, double backward, double optimizer, double gpu) {
  return new Graph(whatif::apply(g, {{forward, backward, optimizer}, gpu}, {}));
}

}  // namespace

void bind_graph(nb::module_& m) {
  m.attr("TASK_KINDS") = names_of<graph::TaskKind>(static_cast<std::size_t>(graph::TaskKind::kCollective) + 1);
  m.attr("DEPENDENCY_KINDS") = names_of<DependencyKind>(graph::kDependencyKinds);
  m.attr("PHASES") = names_of<graph::Phase>(graph::kPhases);
  m.attr("ORIGINS") = names_of<graph::Origin>(static_cast<std::size_t>(graph::Origin::kAnalytic) + 1);
  m.attr("WHOLE") = graph::kWhole;

  nb::class_<StepGraphs>(m, "StepGraphs")
      .def("embedded", &StepGraphs::embedded)
      .def("index", step_index, nb::arg("number").none())
      .def("build", build, nb::arg("index"), nb::arg("without"), nb::arg("device_gaps"), nb::arg("strict"));
  m.def("step_graphs", open_graphs, nb::arg("trace"), nb::keep_alive<0, 1>());
  m.def("recorded_step", [](const LoadedTrace& t) { return report::recorded_step(t.trace); }, nb::arg("trace"));

  nb::class_<Graph>(m, "Graph")
      .def("__len__", &Graph::size)
      .def("column", graph_column)
      .def("shares", shares)
      .def("lanes", lanes)
      .def("layers", layers)
      .def("notes", notes)
      .def("string_count", [](const Graph& g) { return g.strings.size(); })
      .def("string",
           [](const Graph& g, std::size_t i) {
             if (i >= g.strings.size()) throw nb::index_error("no such string");
             return to_str(g.strings[StringId{i}]);
           })
      .def("string_list", string_list)
      .def("step_name", [](const Graph& g) { return to_str(g.step_name); })
      .def("traced", [](const Graph& g) { return g.traced; })
      .def("main_lane", [](const Graph& g) { return g.main_lane; })
      .def("last", [](const Graph& g) { return optional_index(g.last); })
      .def("periodic", [](const Graph& g) { return g.periodic; })
      .def("dump", [](const Graph& g) { return to_str(graph::dump(g)); })
      .def("simulate", simulate_step, nb::arg("cost").none(), nb::keep_alive<0, 1>())
      .def("lower_bounds", lower_bounds)
      .def("unprofiled", unprofiled, nb::arg("measured").none())
      .def("apply", apply_factors, nb::arg("forward"), nb::arg("backward"), nb::arg("optimizer"), nb::arg("gpu"),
           nb::call_guard<nb::gil_scoped_release>());
  m.def("parse_graph", parse, nb::arg("text"));

  nb::class_<SimulatedStep>(m, "Timeline")
      .def("column", timeline_column)
      .def("step", [](const SimulatedStep& s) { return s.state.timeline.step; })
      .def("copies", [](const SimulatedStep& s) { return s.state.copies; })
      .def("settled", [](const SimulatedStep& s) { return s.state.settled; })
      .def("critical_path", critical_path)
      .def("breakdown", breakdown);
}

}  // namespace foretrace::python
