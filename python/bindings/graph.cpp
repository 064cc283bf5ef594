#include "foretrace/graph/graph.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bindings.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/host/measured_step.hpp"
#include "foretrace/host/unprofiled.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "views.hpp"

namespace nb = nanobind;

namespace foretrace::python {

namespace {

using analysis::StepGraphs;
using graph::DependencyKind;
using graph::Graph;

// -- columns

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
  d["waited"] = n.waited;
  d["startup"] = n.startup.time();
  d["allocator"] = n.allocator;
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
  return value_or_raise(graphs.choose(number));
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

nb::tuple lower_bounds(const Graph& g) {
  const simulate::LowerBounds bounds = [&] {
    nb::gil_scoped_release unlocked;
    return simulate::lower_bounds(g);
  }();
  return nb::make_tuple(bounds.no_gpu, bounds.no_network, bounds.no_cpu);
}

nb::dict unprofiled(const Graph& g, std::optional<Ns> measured, const LoadedTrace* trace) {
  const host::Unprofiled u = [&] {
    nb::gil_scoped_release unlocked;
    // What the recorder timed in addition to the step holds whatever step time the user gives.
    host::CpuPrior prior;
    if (trace != nullptr) {
      if (Result<host::Measured> known = host::measured_step(trace->trace, g, g.traced, {})) prior = known->prior;
    }
    return host::unprofiled(g, measured, prior);
  }();
  const auto by_part = [](const std::array<double, host::kCpuPhases>& phase, double gpu, double loading) {
    nb::dict d;
    d["forward"] = phase[0];
    d["backward"] = phase[1];
    d["optimizer"] = phase[2];
    d["gpu"] = gpu;
    d["loading"] = loading;
    return d;
  };
  nb::dict d;
  d["step"] = u.step;
  d["low"] = u.low;
  d["high"] = u.high;
  d["calibrated"] = u.calibrated;
  d["origin"] = to_str(u.origin);
  d["factors"] = by_part(u.factors.phase, u.factors.gpu, u.factors.loading);
  d["profiler"] = nb::make_tuple(u.factors.profiler[0], u.factors.profiler[1], u.factors.profiler[2]);
  d["sigma"] = by_part({u.sigma[0], u.sigma[1], u.sigma[2]}, u.sigma[host::kGpuPart], u.sigma[host::kLoadingPart]);
  return d;
}

Graph* apply_factors(const Graph& g, double forward, double backward, double optimizer, double gpu, double loading,
                     const std::array<double, host::kCpuPhases>& profiler) {
  return new Graph(host::apply(g, {{forward, backward, optimizer}, gpu, loading, profiler}, {}));
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
      .def(
          "number", [](const StepGraphs& g, std::size_t index) { return g.steps().steps.at(index).number; },
          nb::arg("index"))
      .def("index", step_index, nb::arg("number").none())
      .def("build", build, nb::arg("index"), nb::arg("without"), nb::arg("device_gaps"), nb::arg("strict"));
  m.def("step_graphs", open_graphs, nb::arg("trace"), nb::keep_alive<0, 1>());
  m.def(
      "recorded_ms", [](const LoadedTrace& t) { return host::recorder_figures(t.trace).measured_ms; },
      nb::arg("trace"));

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
      .def("lower_bounds", lower_bounds)
      .def("unprofiled", unprofiled, nb::arg("measured").none(), nb::arg("trace").none())
      .def(
          "plausible_step",
          [](const Graph& g, double ms) {
            return value_or_raise(host::plausible_step(g, simulate::steady_state(g).timeline.step, ms));
          },
          nb::arg("ms"))
      .def("apply", apply_factors, nb::arg("forward"), nb::arg("backward"), nb::arg("optimizer"), nb::arg("gpu"),
           nb::arg("loading"), nb::arg("profiler"), nb::call_guard<nb::gil_scoped_release>());
  m.def("parse_graph", parse, nb::arg("text"));
}

}  // namespace foretrace::python
