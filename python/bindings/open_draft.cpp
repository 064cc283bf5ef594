#include "open_draft.hpp"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <cmath>

#include "bindings.hpp"
#include "named.hpp"
#include "views.hpp"

namespace nb = nanobind;

namespace foretrace::python {

namespace {

using graph::DependencyKind;
using graph::GraphLaneKind;
using graph::Phase;
using graph::TaskKind;
using whatif::Draft;
using whatif::Selection;

constexpr double kLongestNs = 1e15;

[[noreturn]] void refuse(const std::string& message) { throw nb::value_error(message.c_str()); }

TaskKind task_kind(std::string_view name) {
  return named<TaskKind>("kind of task", name, static_cast<std::size_t>(TaskKind::kCollective) + 1);
}
Phase phase_named(std::string_view name) { return named<Phase>("phase", name, graph::kPhases); }

Ns checked_ns(double ns, std::string_view what) {
  if (!(ns >= 0) || ns > kLongestNs) refuse(fmt::format("a {} in ns must be 0 or more, and finite: not {}", what, ns));
  return static_cast<Ns>(std::llround(ns));
}

double at(const Numbers& numbers, std::size_t i) { return numbers(numbers.shape(0) == 1 ? 0 : i); }
void check_count(const Numbers& numbers, std::size_t tasks, std::string_view what) {
  if (numbers.shape(0) != 1 && numbers.shape(0) != tasks) {
    refuse(fmt::format("{} needs one value, or one for each of the {} tasks: not {}", what, tasks, numbers.shape(0)));
  }
}

}  // namespace

Draft& OpenDraft::draft() {
  if (draft_ == nullptr) refuse("this draft is finished: it can be used only inside the what-if it was given to");
  return *draft_;
}

std::uint32_t OpenDraft::task(std::int64_t id) {
  const std::size_t count = draft().base().size() + added_.size();
  if (id < 0 || static_cast<std::size_t>(id) >= count) {
    throw nb::index_error(fmt::format("there is no task {}; there are {}", id, count).c_str());
  }
  return static_cast<std::uint32_t>(id);
}

Selection OpenDraft::tasks(const TaskIds& ids) {
  Selection out(ids.shape(0));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = task(ids(i));
  return out;
}

OpenDraft::TaskInfo OpenDraft::info(std::uint32_t t) {
  const graph::Graph& g = draft().base();
  if (t >= g.size()) return added_[t - g.size()];
  return {g.kind[t], g.phase[t], g.layer[t], g.launch[t].valid() ? g.launch[t].value : kNone, g.lane[t]};
}

std::uint32_t OpenDraft::cpu_task(std::int64_t id) {
  const std::uint32_t t = task(id);
  if (graph::is_gpu(info(t).kind)) refuse(fmt::format("task {} is on the GPU; CPU work follows CPU work", id));
  return t;
}

nb::object OpenDraft::select(const Filter& f) {
  const Draft& d = draft();
  whatif::Query query;
  if (f.kind) query.kind = task_kind(*f.kind);
  if (f.phase) query.phase = phase_named(*f.phase);
  query.gpu = f.gpu;
  query.lane = f.lane;
  query.name = f.name;
  query.op = f.op;
  query.after = f.after;
  query.shape = f.shape;
  query.layer = f.layer;
  Column<std::int64_t> found;
  for (const std::uint32_t t : d.select(query)) found.push_back(t);
  return give(std::move(found));
}

nb::object OpenDraft::cost(const TaskIds& ids) {
  Column<Ns> costs;
  for (const std::uint32_t t : tasks(ids)) costs.push_back(draft().cost(t));
  return give(std::move(costs));
}

graph::Graph* OpenDraft::graph() { return new graph::Graph(draft().base()); }

nb::list OpenDraft::op_names(const EventIds& events) {
  static_cast<void>(draft());
  const trace::Trace& t = *model_->trace;
  nb::list names;
  for (std::size_t i = 0; i < events.shape(0); ++i) {
    if (events(i) >= t.size()) throw nb::index_error(fmt::format("there is no event {}", events(i)).c_str());
    names.append(to_str(t.name(events(i))));
  }
  return names;
}

void OpenDraft::scale(const TaskIds& ids, const Numbers& factors) {
  const Selection selected = tasks(ids);
  check_count(factors, selected.size(), "scale");
  for (std::size_t i = 0; i < selected.size(); ++i) {
    const double factor = at(factors, i);
    if (!(factor >= 0) || !std::isfinite(factor))
      refuse(fmt::format("a factor must be 0 or more, and finite: not {}", factor));
    checked_ns(static_cast<double>(draft().cost(selected[i])) * factor, "scaled cost");
  }
  if (factors.shape(0) == 1) return draft().scale(selected, factors(0));
  for (std::size_t i = 0; i < selected.size(); ++i) draft().scale({selected[i]}, factors(i));
}

void OpenDraft::set(const TaskIds& ids, const Numbers& costs) {
  const Selection selected = tasks(ids);
  check_count(costs, selected.size(), "set");
  std::vector<Ns> values;
  for (std::size_t i = 0; i < selected.size(); ++i) values.push_back(checked_ns(at(costs, i), "cost"));
  for (std::size_t i = 0; i < selected.size(); ++i) draft().set(selected[i], values[i]);
}

void OpenDraft::remove(const TaskIds& ids, bool with_launch) {
  Selection selected = tasks(ids);
  const std::size_t own = draft().base().size();
  for (const std::uint32_t t : selected) {
    if (t >= own) refuse(fmt::format("task {} was inserted by this what-if and cannot be removed by it", t));
    if (info(t).kind == TaskKind::kBegin) refuse(fmt::format("task {} is the begin of the step and stays", t));
  }
  std::sort(selected.begin(), selected.end());
  selected.erase(std::unique(selected.begin(), selected.end()), selected.end());
  draft().remove(selected, with_launch ? Draft::kWithLaunch : Draft::kTaskOnly);
}

Ns OpenDraft::launch_cost(std::uint32_t after) {
  const graph::Graph& g = draft().base();
  const auto phase = after < g.size() ? host::cpu_phase(g, after) : host::CpuPhase::kForward;
  return model_->launches.cpu_per_launch[static_cast<std::size_t>(phase)];
}

nb::object OpenDraft::insert(const std::string& name, const TaskIds& after, const Numbers& costs, std::string_view kind,
                             const std::optional<TaskIds>& cpu_after, const std::optional<Numbers>& cpu_costs,
                             const std::optional<std::string>& phase) {
  const Selection behind = tasks(after);
  check_count(costs, behind.size(), "cost");
  if (cpu_costs) check_count(*cpu_costs, behind.size(), "cpu_cost");
  if (cpu_after && cpu_after->shape(0) != behind.size()) refuse("cpu_after needs one task for each of after");
  std::vector<whatif::NewKernel> kernels(behind.size());
  for (std::size_t i = 0; i < behind.size(); ++i) {
    const TaskInfo before = info(behind[i]);
    whatif::NewKernel& k = kernels[i];
    k.name = name;
    k.kind = task_kind(kind);
    if (!graph::is_gpu(k.kind))
      refuse(fmt::format("insert makes GPU tasks, not '{}'; insert_cpu makes CPU work", kind));
    if (!graph::is_gpu(before.kind))
      refuse(fmt::format("task {} is not on the GPU; a kernel follows GPU work", behind[i]));
    k.cost = checked_ns(at(costs, i), "cost");
    k.phase = phase ? phase_named(*phase) : before.phase;
    k.layer = before.layer;
    k.after.gpu = behind[i];
    if (!cpu_after && before.launch == kNone) {
      refuse(fmt::format("no call is known to have launched task {}: say with cpu_after what launches the new one",
                         behind[i]));
    }
    k.after.cpu = cpu_after ? cpu_task((*cpu_after)(i)) : before.launch;
    k.cpu_cost = cpu_costs ? checked_ns(at(*cpu_costs, i), "cpu_cost") : launch_cost(k.after.cpu);
  }
  Column<std::int64_t> ids;
  for (const whatif::NewKernel& k : kernels) {
    const std::uint32_t id = draft().insert(k).gpu;
    added_.push_back({TaskKind::kCall, k.phase, k.layer, kNone, info(k.after.cpu).lane});
    added_.push_back({k.kind, k.phase, k.layer, id - 1, info(k.after.gpu).lane});
    ids.push_back(id);
  }
  return give(std::move(ids));
}

nb::object OpenDraft::insert_cpu(const std::string& name, const TaskIds& after, const Numbers& costs) {
  check_count(costs, after.shape(0), "cost");
  std::vector<Ns> values;
  for (std::size_t i = 0; i < after.shape(0); ++i) {
    cpu_task(after(i));
    values.push_back(checked_ns(at(costs, i), "cost"));
  }
  Column<std::int64_t> ids;
  for (std::size_t i = 0; i < after.shape(0); ++i) {
    const std::uint32_t behind = cpu_task(after(i));
    const TaskInfo before = info(behind);
    ids.push_back(draft().insert_cpu(behind, name, values[i], before.phase));
    added_.push_back({TaskKind::kCpu, before.phase, graph::LayerId{}, kNone, before.lane});
  }
  return give(std::move(ids));
}

std::int64_t OpenDraft::insert_wait(const std::string& name, std::int64_t after, const TaskIds& waits_for, double lag) {
  const std::uint32_t behind = cpu_task(after);
  const Selection until = tasks(waits_for);
  const Ns distance = checked_ns(lag, "lag");
  const TaskInfo before = info(behind);
  const std::uint32_t id = draft().insert_wait(behind, name);
  added_.push_back({TaskKind::kWait, before.phase, graph::LayerId{}, kNone, before.lane});
  for (const std::uint32_t t : until) draft().depend(t, id, distance, DependencyKind::kSync);
  return id;
}

std::int64_t OpenDraft::add_lane(const std::string& name, std::string_view kind) {
  if (kind != "cpu" && kind != "gpu" && kind != "network") {
    refuse(fmt::format("there is no kind of lane '{}'; there are cpu, gpu, network", kind));
  }
  const auto lane_kind = kind == "cpu"   ? GraphLaneKind::kCpu
                         : kind == "gpu" ? GraphLaneKind::kGpu
                                         : GraphLaneKind::kNetwork;
  lanes_added_.push_back(lane_kind);
  return draft().add_lane(lane_kind, name);
}

std::int64_t OpenDraft::append(std::int64_t lane, const std::string& name, double cost, std::string_view kind,
                               std::string_view phase) {
  const auto own = static_cast<std::int64_t>(draft().base().lanes.size());
  if (lane < own || lane >= own + static_cast<std::int64_t>(lanes_added_.size())) {
    throw nb::index_error(fmt::format("lane {} was not added by this what-if", lane).c_str());
  }
  const TaskKind as = task_kind(kind);
  const bool cpu_lane = lanes_added_[static_cast<std::size_t>(lane - own)] == GraphLaneKind::kCpu;
  if (as == TaskKind::kBegin || graph::is_gpu(as) == cpu_lane) {
    refuse(fmt::format("a task of kind '{}' does not run on a {} lane", kind, cpu_lane ? "CPU" : "GPU or network"));
  }
  const Phase of = phase_named(phase);
  const auto place = static_cast<std::uint32_t>(lane);
  const std::uint32_t id = draft().append(place, as, name, checked_ns(cost, "cost"), of, graph::LayerId{});
  added_.push_back({as, of, graph::LayerId{}, kNone, place});
  return id;
}

void OpenDraft::depend(const TaskIds& from, const TaskIds& to, double lag, std::string_view kind) {
  const Selection first = tasks(from);
  const Selection then = tasks(to);
  const std::size_t n = std::max(first.size(), then.size());
  if ((first.size() != n && first.size() != 1) || (then.size() != n && then.size() != 1)) {
    refuse(fmt::format("depend needs as many tasks on both sides, or one: not {} and {}", first.size(), then.size()));
  }
  const auto why = named<DependencyKind>("reason", kind, graph::kDependencyKinds);
  if (why == DependencyKind::kNone || why == DependencyKind::kLane || why == DependencyKind::kQueue ||
      why == DependencyKind::kShare) {
    refuse(fmt::format("'{}' comes from the order of a lane or from the device; give another reason", kind));
  }
  const Ns distance = checked_ns(lag, "lag");
  for (std::size_t i = 0; i < n; ++i) {
    draft().depend(first[first.size() == 1 ? 0 : i], then[then.size() == 1 ? 0 : i], distance, why);
  }
}

void OpenDraft::schedule(const TaskIds& ids, const Numbers& priorities) {
  const Selection selected = tasks(ids);
  check_count(priorities, selected.size(), "priority");
  for (std::size_t i = 0; i < selected.size(); ++i) {
    if (std::isnan(at(priorities, i))) refuse("a priority must be a number");
    priorities_.emplace_back(selected[i], at(priorities, i));
  }
}

void OpenDraft::not_modelled(std::string text) {
  static_cast<void>(draft());
  model_->not_modelled.push_back(std::move(text));
}

void OpenDraft::finish() {
  // A graph counts priorities in whole numbers: only their order matters, and where 0 is among them.
  std::vector<double> steps{0.0};
  for (const auto& [task, priority] : priorities_) steps.push_back(priority);
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  const auto rank = [&](double p) { return std::lower_bound(steps.begin(), steps.end(), p) - steps.begin(); };
  for (const auto& [task, priority] : priorities_) {
    draft().schedule({task}, static_cast<std::int32_t>(rank(priority) - rank(0.0)));
  }
  add_blocks();
  close();
}

void bind_draft(nb::module_& m) {
  nb::class_<OpenDraft>(m, "Draft")
      .def(
          "select",
          [](OpenDraft& d, std::optional<std::string> kind, std::optional<std::string> phase, std::string name,
             std::string op, std::string layer, std::string after, std::string shape, bool gpu,
             std::optional<std::uint32_t> lane) {
            return d.select({std::move(kind), std::move(phase), std::move(name), std::move(op), std::move(layer),
                             std::move(after), std::move(shape), gpu, lane});
          },
          nb::arg("kind").none(), nb::arg("phase").none(), nb::arg("name"), nb::arg("op"), nb::arg("layer"),
          nb::arg("after"), nb::arg("shape"), nb::arg("gpu"), nb::arg("lane").none())
      .def("cost", &OpenDraft::cost, nb::arg("tasks"))
      .def("graph", &OpenDraft::graph, nb::rv_policy::take_ownership)
      .def("scale", &OpenDraft::scale, nb::arg("tasks"), nb::arg("factors"))
      .def("set", &OpenDraft::set, nb::arg("tasks"), nb::arg("costs"))
      .def("remove", &OpenDraft::remove, nb::arg("tasks"), nb::arg("with_launch"))
      .def("insert", &OpenDraft::insert, nb::arg("name"), nb::arg("after"), nb::arg("cost"), nb::arg("kind"),
           nb::arg("cpu_after").none(), nb::arg("cpu_cost").none(), nb::arg("phase").none())
      .def("insert_cpu", &OpenDraft::insert_cpu, nb::arg("name"), nb::arg("after"), nb::arg("cost"))
      .def("insert_wait", &OpenDraft::insert_wait, nb::arg("name"), nb::arg("after"), nb::arg("until"), nb::arg("lag"))
      .def("add_lane", &OpenDraft::add_lane, nb::arg("name"), nb::arg("kind"))
      .def("append", &OpenDraft::append, nb::arg("lane"), nb::arg("name"), nb::arg("cost"), nb::arg("kind"),
           nb::arg("phase"))
      .def("depend", &OpenDraft::depend, nb::arg("first"), nb::arg("then"), nb::arg("lag"), nb::arg("kind"))
      .def("schedule", &OpenDraft::schedule, nb::arg("tasks"), nb::arg("priority"))
      .def("op_names", &OpenDraft::op_names, nb::arg("events"))
      .def("scale_batch", &OpenDraft::scale_batch, nb::arg("factor"))
      .def("has_memory", &OpenDraft::has_memory)
      .def("memory_column", &OpenDraft::memory_column, nb::arg("name"))
      .def("memory_peak", &OpenDraft::memory_peak)
      .def("memory_select", &OpenDraft::memory_select, nb::arg("kind").none(), nb::arg("phase").none(), nb::arg("op"),
           nb::arg("layer"))
      .def("memory_scale", &OpenDraft::memory_scale, nb::arg("blocks"), nb::arg("factors"))
      .def("memory_free", &OpenDraft::memory_free, nb::arg("blocks"), nb::arg("positions"))
      .def("memory_add", &OpenDraft::memory_add, nb::arg("nbytes"), nb::arg("kind"), nb::arg("allocated"),
           nb::arg("freed").none())
      .def("memory_scale_batch", &OpenDraft::memory_scale_batch, nb::arg("factor"))
      .def("not_modelled", &OpenDraft::not_modelled, nb::arg("text"));
  nb::list kinds;
  for (const std::string_view kind : kMemoryKinds) kinds.append(to_str(kind));
  m.attr("MEMORY_KINDS") = nb::tuple(kinds);
}

}  // namespace foretrace::python
