#include "foretrace/trace/trace.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <optional>

#include "bindings.hpp"
#include "foretrace/trace/load.hpp"
#include "views.hpp"

namespace nb = nanobind;

namespace foretrace::python {

namespace {

using trace::Trace;

/// Rows of a side table as bytes; Python gives them their record type.
template <class T>
nb::object rows(nb::handle owner, const Column<T>& table) {
  return view(owner, reinterpret_cast<const std::uint8_t*>(table.data()), table.bytes());
}

nb::object column(nb::handle self, std::string_view name) {
  const LoadedTrace& loaded = nb::cast<const LoadedTrace&>(self);
  const Trace& t = loaded.trace;
  const trace::Events& e = t.events;
  if (name == "start") return view(self, e.start.data(), e.size());
  if (name == "duration") return view(self, e.duration.data(), e.size());
  if (name == "name") return view(self, e.name.data(), e.name.size());
  if (name == "lane") return view(self, e.lane.data(), e.lane.size());
  if (name == "args") return view(self, e.args.data(), e.args.size());
  if (name == "correlation") return view(self, e.correlation.data(), e.size());
  if (name == "external_id") return view(self, e.external_id.data(), e.size());
  if (name == "side") return view(self, e.side.data(), e.size());
  if (name == "category") return view(self, e.category.data(), e.size());
  if (name == "ph") return view(self, reinterpret_cast<const std::uint8_t*>(e.ph.data()), e.size());
  if (name == "op_ids") return rows(self, t.op_ids);
  if (name == "python_ids") return rows(self, t.python_ids);
  if (name == "memory_ids") return rows(self, t.memory_ids);
  if (name == "sync_ids") return rows(self, t.sync_ids);
  if (name == "copy_ids") return rows(self, t.copy_ids);
  throw nb::key_error(std::string(name).c_str());
}

nb::list lanes(const LoadedTrace& loaded) {
  static constexpr const char* kKinds[] = {"cpu_thread", "gpu_stream", "other"};
  const Trace& t = loaded.trace;
  nb::list list;
  for (std::size_t i = 0; i < t.lanes.size(); ++i) {
    const trace::Lane& lane = t.lanes[i];
    nb::dict d;
    d["index"] = i;
    d["kind"] = kKinds[static_cast<std::size_t>(lane.kind)];
    d["label"] = to_str(t.lane_label(LaneId{i}));
    d["pid"] = to_str(t.strings[lane.pid]);
    d["tid"] = to_str(t.strings[lane.tid]);
    d["pid_number"] = optional_int(lane.pid_number);
    d["tid_number"] = optional_int(lane.tid_number);
    const auto text = [&](StringId id) { return to_str(id.valid() ? t.strings[id] : std::string_view()); };
    d["name"] = text(lane.name);
    d["process_name"] = text(lane.process_name);
    d["process_labels"] = text(lane.process_labels);
    d["sort_index"] = optional_int(lane.sort_index);
    list.append(d);
  }
  return list;
}

nb::list devices(const LoadedTrace& loaded) {
  nb::list list;
  for (const trace::DeviceProperties& p : loaded.trace.devices) {
    nb::dict d;
    d["id"] = p.id;
    d["name"] = to_str(p.name);
    d["total_memory_bytes"] = optional_int(p.total_memory_bytes);
    d["compute_major"] = optional_int(p.compute_major);
    d["compute_minor"] = optional_int(p.compute_minor);
    d["sm_count"] = optional_int(p.sm_count);
    d["warp_size"] = optional_int(p.warp_size);
    d["max_threads_per_block"] = optional_int(p.max_threads_per_block);
    d["max_threads_per_sm"] = optional_int(p.max_threads_per_sm);
    d["registers_per_sm"] = optional_int(p.registers_per_sm);
    d["registers_per_block"] = optional_int(p.registers_per_block);
    d["shared_memory_per_block"] = optional_int(p.shared_memory_per_block);
    d["shared_memory_per_block_optin"] = optional_int(p.shared_memory_per_block_optin);
    d["shared_memory_per_sm"] = optional_int(p.shared_memory_per_sm);
    list.append(d);
  }
  return list;
}

nb::object distributed(const LoadedTrace& loaded) {
  const trace::DistributedInfo& info = loaded.trace.distributed;
  if (!info.present) return nb::none();
  nb::dict d;
  d["rank"] = optional_int(info.rank);
  d["world_size"] = optional_int(info.world_size);
  d["backend"] = to_str(info.backend);
  d["nccl_version"] = to_str(info.nccl_version);
  return d;
}

nb::list problems(const LoadedTrace& loaded) {
  nb::list list;
  for (const Problem& p : loaded.trace.diagnostics.problems()) {
    nb::dict d;
    d["name"] = to_str(p.name);
    d["severity"] = p.severity == Severity::kInfo ? "info" : "data_loss";
    d["meaning"] = to_str(p.meaning);
    d["count"] = p.count;
    d["example"] = to_str(p.example);
    d["offset"] = p.offset < 0 ? nb::none() : nb::object(nb::int_(p.offset));
    list.append(d);
  }
  return list;
}

nb::tuple step_tuple(const trace::Steps& steps) {
  nb::list list;
  for (const trace::Step& s : steps.steps) {
    nb::dict d;
    d["name"] = to_str(s.name);
    d["number"] = s.number;
    d["start"] = s.start;
    d["end"] = s.end;
    d["lane"] = s.lane.valid() ? nb::object(nb::int_(s.lane.index())) : nb::none();
    d["waited"] = s.waited;
    list.append(d);
  }
  const bool any = !steps.steps.empty();
  return nb::make_tuple(to_str(trace::describe(steps.source)), list,
                        any ? nb::object(nb::int_(steps.median())) : nb::none(), to_str(steps.marked_by));
}

nb::tuple steps(const LoadedTrace& loaded) { return step_tuple(loaded.steps); }

nb::tuple steps_by(const LoadedTrace& loaded, const std::string& name) {
  return step_tuple(value_or_raise(trace::steps_by(loaded.trace, name)));
}

nb::list step_candidates(const LoadedTrace& loaded) {
  nb::list list;
  for (const trace::StepCandidate& c : trace::step_candidates(loaded.trace)) {
    nb::dict d;
    d["name"] = to_str(c.name);
    d["count"] = c.count;
    d["median"] = c.median;
    d["gpu_share"] = c.gpu_share;
    list.append(d);
  }
  return list;
}

nb::list categories(const LoadedTrace& loaded) {
  nb::list list;
  for (const trace::Category& c : loaded.trace.categories) {
    list.append(nb::make_tuple(to_str(loaded.trace.strings[c.name]), static_cast<int>(c.kind)));
  }
  return list;
}

nb::list metadata(const LoadedTrace& loaded) {
  nb::list list;
  for (const auto& [key, raw] : loaded.trace.metadata) list.append(nb::make_tuple(to_str(key), to_str(raw)));
  return list;
}

/// Key and raw JSON of each argument of a tuple; also where a value is not valid JSON ("nan").
nb::list args_pairs(const LoadedTrace& loaded, std::uint32_t id) {
  nb::list list;
  for (const auto& [key, raw] : trace::argument_pairs(loaded.trace.args.text(ArgsId{id}))) {
    list.append(nb::make_tuple(to_str(key), to_str(raw)));
  }
  return list;
}

nb::list string_list(const LoadedTrace& loaded) {
  const StringTable& table = loaded.trace.strings;
  nb::list list;
  for (std::size_t i = 0; i < table.size(); ++i) list.append(to_str(table[StringId{i}]));
  return list;
}

LoadedTrace* finish(Result<Trace>&& result) {
  // Steps come with the import, outside the interpreter's lock.
  if (!result) {
    nb::gil_scoped_acquire locked;
    raise(result.error());
  }
  auto loaded = std::make_unique<LoadedTrace>();
  loaded->trace = std::move(*result);
  loaded->steps = trace::find_steps(loaded->trace);
  return loaded.release();
}

}  // namespace

void bind_trace(nb::module_& m) {
  m.attr("ABSENT") = trace::kAbsent;
  nb::list kinds;
  for (int k = 0; k < static_cast<int>(trace::EventKind::kCount); ++k) {
    kinds.append(to_str(trace::to_string(static_cast<trace::EventKind>(k))));
  }
  m.attr("KINDS") = nb::tuple(kinds);

  nb::class_<LoadedTrace>(m, "Trace")
      .def("__len__", [](const LoadedTrace& t) { return t.trace.size(); })
      .def("column", [](nb::handle self, std::string_view name) { return column(self, name); })
      .def("path", [](const LoadedTrace& t) { return to_str(t.trace.path); })
      .def("format", [](const LoadedTrace& t) { return to_str(t.trace.format); })
      .def("input_bytes", [](const LoadedTrace& t) { return t.trace.input_bytes; })
      .def("partial", [](const LoadedTrace& t) { return t.trace.partial; })
      .def("base_time_ns", [](const LoadedTrace& t) { return t.trace.base_time_ns; })
      .def("bytes", [](const LoadedTrace& t) { return t.trace.bytes(); })
      .def("string_count", [](const LoadedTrace& t) { return t.trace.strings.size(); })
      .def("string",
           [](const LoadedTrace& t, std::size_t i) {
             if (i >= t.trace.strings.size()) throw nb::index_error("no such string");
             return to_str(t.trace.strings[StringId{i}]);
           })
      .def("string_list", string_list)
      .def("args_text", [](const LoadedTrace& t, std::uint32_t id) { return to_str(t.trace.args.text(ArgsId{id})); })
      .def("args_pairs", args_pairs)
      .def("lanes", lanes)
      .def("devices", devices)
      .def("distributed", distributed)
      .def("problems", problems)
      .def("steps", steps)
      .def("steps_by", steps_by)
      .def("step_candidates", step_candidates)
      .def("categories", categories)
      .def("metadata", metadata);

  m.def(
      "load",
      [](const std::string& path, unsigned threads, bool strict, bool partial, const std::string& steps_by) {
        return finish(trace::load(path, {threads, strict, partial, {}, steps_by, extensions().parquet}));
      },
      nb::arg("path"), nb::arg("threads"), nb::arg("strict"), nb::arg("partial"), nb::arg("steps_by") = "",
      nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "load_bytes",
      [](nb::bytes data, const std::string& name, unsigned threads, bool strict, bool partial,
         const std::string& steps_by) {
        const std::string_view bytes(data.c_str(), data.size());
        nb::gil_scoped_release unlocked;
        return finish(trace::load_bytes(bytes, name, {threads, strict, partial, {}, steps_by}));
      },
      nb::arg("data"), nb::arg("name"), nb::arg("threads"), nb::arg("strict"), nb::arg("partial"),
      nb::arg("steps_by") = "");
}

}  // namespace foretrace::python
