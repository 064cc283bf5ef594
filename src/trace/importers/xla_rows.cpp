#include "trace/importers/xla_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trace/communication.hpp"
#include "trace/latencies.hpp"

namespace foretrace::trace {

namespace {

void append(std::string& out, std::string_view key, std::int64_t value) {
  if (value != kAbsent) fmt::format_to(std::back_inserter(out), ",\"{}\":{}", key, value);
}

// As PyTorch's profiler spells types, which is how collectives are read.
std::string_view plain_type(std::string_view type) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {"f32", "Float"}, {"bf16", "BFloat16"}, {"f16", "Half"}, {"f64", "Double"}, {"c64", "Double"}, {"s32", "Int"},
      {"u32", "Int"},   {"s64", "Long"},      {"u64", "Long"}, {"s16", "Short"},  {"u16", "Short"}};
  for (const auto& [name, plain] : kTypes) {
    if (type == name) return plain;
  }
  return "Byte";
}

std::string collective_arguments(const HloModule::Launch& launch) {
  std::string json = fmt::format(R"(,"Collective name":"{}","dtype":"{}")", launch.instruction->opcode,
                                 plain_type(launch.message.dtype));
  append(json, "In msg nelems", launch.message.sent > 0 ? launch.message.sent : kAbsent);
  append(json, "Out msg nelems", launch.message.received > 0 ? launch.message.received : kAbsent);
  append(json, "Group size", launch.instruction->groups > 0 ? launch.instruction->groups : kAbsent);
  return json;
}

}  // namespace

std::string XlaRows::arguments(const XlaWork& w, const std::string& details, const HloModule* module,
                               const KernelOrigin& origin) const {
  std::string json = fmt::format(R"({{"device":{},"context":{},"stream":{})", w.device, w.context, w.stream);
  if (!details.empty()) {
    const XlaKernelDetails d = parse_kernel_details(details);
    json +=
        fmt::format(R"(,"registers per thread":{},"shared memory":{},"grid":[{},{},{}],"block":[{},{},{}])",
                    d.registers, d.shared_memory, d.grid[0], d.grid[1], d.grid[2], d.block[0], d.block[1], d.block[2]);
    if (d.occupancy >= 0 && d.occupancy <= 100) json += fmt::format(R"(,"est. achieved occupancy %":{})", d.occupancy);
  }
  append(json, "graph id", w.graph);
  append(json, "graph node id", w.node);
  if (origin.launch != kNone) {
    const HloModule::Launch& launch = module->launches[origin.launch];
    CompiledOp op = launch.work;
    op.part = origin.part;
    const auto device =
        std::find_if(t_.devices.begin(), t_.devices.end(), [&](const auto& d) { return d.id == w.device; });
    if (op.dtype == "tf32" && device != t_.devices.end() && device->compute_major < 8) op.dtype = "f32";
    if (op.family == "collective") json += collective_arguments(launch);
    json += compiled_op_json(op);
  }
  return json + '}';
}

void XlaRows::add_program(std::int64_t id, std::string_view name, std::string_view proto) {
  programs_.try_emplace(id, Program{std::string(name.substr(0, name.rfind('('))), proto, nullptr, false});
}

const HloModule* XlaRows::program(const XlaWork& work) {
  auto it = programs_.find(work.program);
  if (it == programs_.end() && work.module.valid()) {
    // By name where there is one of that name only.
    const std::string_view name = t_.strings[work.module];
    const auto named = [&](const auto& p) { return p.second.name == name; };
    const auto first = std::find_if(programs_.begin(), programs_.end(), named);
    if (first != programs_.end() && std::find_if(std::next(first), programs_.end(), named) == programs_.end())
      it = first;
  }
  if (it == programs_.end()) return nullptr;
  Program& p = it->second;
  if (!p.read) {
    p.read = true;
    p.module = std::make_unique<HloModule>();
    if (!p.module->read(p.proto)) {
      p.module.reset();
      t_.diagnostics.add("unreadable_program", Severity::kDataLoss,
                         "a compiled program in the file could not be read: its kernels have no sizes", p.name);
    }
  }
  return p.module.get();
}

void XlaRows::add_works(const std::vector<XlaWork>& works) {
  const auto details_of = [&](const XlaWork& w) {
    return std::string(w.details.valid() ? t_.strings[w.details] : std::string_view{});
  };
  // Kernels of one program, in the order they ran.
  std::vector<std::pair<const HloModule*, std::vector<std::uint32_t>>> of_program;  // few
  const HloModule* last = nullptr;
  for (std::uint32_t i = 0; i < works.size(); ++i) {
    const bool like_the_last =
        i > 0 && works[i].program == works[i - 1].program && works[i].module == works[i - 1].module;
    if (!like_the_last) last = program(works[i]);
    if (last == nullptr) continue;
    auto it = std::find_if(of_program.begin(), of_program.end(), [&](const auto& p) { return p.first == last; });
    if (it == of_program.end()) it = of_program.insert(it, {last, {}});
    it->second.push_back(i);
  }
  // The program that trains: the one with gradients that has most kernels.
  std::size_t most = 0;
  for (const auto& [module, list] : of_program) {
    if (module->parameter_elements == 0 || list.size() <= most) continue;
    most = list.size();
    std::erase_if(t_.metadata, [](const auto& m) { return m.first == "compiled_parameters"; });
    t_.metadata.emplace_back("compiled_parameters",
                             fmt::format("[{},{}]", module->parameter_elements, module->parameter_tensors));
  }
  std::vector<KernelOrigin> origin(works.size());
  std::vector<const HloModule*> module_of(works.size(), nullptr);
  std::unordered_map<std::uint32_t, bool> collective;  // by name
  for (auto& [module, list] : of_program) {
    const auto earlier = [&](std::uint32_t a, std::uint32_t b) { return works[a].start < works[b].start; };
    if (!std::is_sorted(list.begin(), list.end(), earlier)) std::stable_sort(list.begin(), list.end(), earlier);
    std::vector<RanKernel> ran;
    for (const std::uint32_t i : list) {
      const std::string_view name = t_.strings[works[i].name];
      const EventKind kind = xla_gpu_kind(name);
      const auto [known_name, added] = collective.try_emplace(works[i].name.value, false);
      if (added) known_name->second = kind == EventKind::kKernel && is_communication_kernel(name);
      ran.push_back({name, works[i].instruction.valid() ? t_.strings[works[i].instruction] : std::string_view{},
                     kind == EventKind::kMemcpy, kind == EventKind::kMemset, known_name->second});
    }
    const std::vector<KernelOrigin> found = match_kernels(*module, ran);
    for (std::size_t i = 0; i < list.size(); ++i) {
      origin[list[i]] = found[i];
      module_of[list[i]] = module;
      (found[i].launch == kNone ? unknown : known) += 1;
    }
  }
  const auto index_of = [&](const HloModule* module) {
    return std::find_if(of_program.begin(), of_program.end(), [&](const auto& p) { return p.first == module; }) -
           of_program.begin();
  };
  const std::uint16_t kernel = rows.category("kernel", EventKind::kKernel);
  const std::uint16_t memcpy = rows.category("gpu_memcpy", EventKind::kMemcpy);
  const std::uint16_t memset = rows.category("gpu_memset", EventKind::kMemset);
  ArgumentTuples<10> tuples;
  for (std::uint32_t i = 0; i < works.size(); ++i) {
    const XlaWork& w = works[i];
    EventRow e;
    e.start = w.start;
    e.duration = w.duration;
    e.correlation = w.correlation;
    if (w.correlation != kAbsent) launched_.insert(w.correlation);
    e.lane = rows.lane(LaneKind::kGpuStream, w.device, w.stream);
    const EventKind kind = xla_gpu_kind(t_.strings[w.name]);
    const bool is_kernel = kind == EventKind::kKernel;
    e.name = w.name;
    e.category = is_kernel ? kernel : kind == EventKind::kMemcpy ? memcpy : memset;
    if (!is_kernel) {
      const XlaCopyDetails copy = parse_copy_details(details_of(w));
      e.name = t_.strings.intern(xla_copy_name(t_.strings[w.name], copy));
      CopyIds ids;
      if (copy.bytes > 0) ids.bytes = copy.bytes;
      if (copy.bytes > 0 && w.duration > 0) {
        ids.gbytes_per_s = static_cast<double>(copy.bytes) / static_cast<double>(w.duration);
      }
      e.side = EventRows::side(t_.copy_ids, ids);
    }
    const std::int64_t of = module_of[i] == nullptr ? -1 : static_cast<std::int64_t>(index_of(module_of[i]));
    e.args =
        tuples.find(t_.args,
                    {is_kernel ? w.details.value : kNone, of, origin[i].launch, origin[i].part, w.device, w.stream,
                     w.context, w.graph, w.node, is_kernel ? 1 : 0},
                    [&](const auto&) { return arguments(w, is_kernel ? details_of(w) : "", module_of[i], origin[i]); });
    rows.add(e);
  }
}

const XlaRows::HostName& XlaRows::host_name(StringId name) {
  if (host_names_.size() <= name.index()) host_names_.resize(std::max<std::size_t>(t_.strings.size(), 64));
  HostName& out = host_names_[name.index()];
  if (out.known) return out;
  out.known = true;
  const std::string text(t_.strings[name]);
  out.kind = xla_host_kind(text);
  out.call = name;
  std::string_view category = "cpu_op";
  if (out.kind == EventKind::kRuntime) {
    out.call = t_.strings.intern(xla_call_name(text));
    category = text.starts_with("cuda") || text.starts_with("hip") ? "cuda_runtime" : "cuda_driver";
  } else if (out.kind == EventKind::kPython) {
    category = "python_function";
  } else if (out.kind == EventKind::kMemory) {
    category = "cpu_instant_event";
  } else if (out.kind == EventKind::kOverhead) {
    category = "overhead";
  }
  out.category = rows.category(category, out.kind);
  return out;
}

void XlaRows::add_host(const XlaHost& host) {
  EventRow row;
  row.start = host.start;
  row.duration = host.duration;
  row.lane = host.lane;
  if (host.step != kAbsent) {
    row.args = t_.args.intern(fmt::format(R"({{"step_num":{}}})", host.step));
    row.name = t_.strings.intern(fmt::format("StepTraceAnnotation#{}", host.step));
    row.category = rows.category("user_annotation", EventKind::kAnnotation);
    row.side = EventRows::side(t_.op_ids, OpIds{});
    rows.add(row);
    return;
  }
  const HostName& what = host_name(host.name);
  row.name = what.call;
  row.category = what.category;
  if (what.kind == EventKind::kOp && host.correlation != kAbsent && launched_.contains(host.correlation)) {
    // A launch outside of command buffers bears the name of what it launched.
    row.name = t_.strings.intern(xla_launch_name(t_.strings[host.name]));
    row.category = rows.category("cuda_driver", EventKind::kRuntime);
    row.correlation = host.correlation;
  } else if (what.kind == EventKind::kRuntime) {
    row.correlation = host.correlation;
  } else if (what.kind == EventKind::kPython) {
    row.side = EventRows::side(t_.python_ids, PythonIds{});
  } else if (what.kind == EventKind::kMemory && (host.memory.address != kAbsent || host.memory.bytes != 0)) {
    MemoryIds memory = host.memory;
    if (t_.strings[host.name] == "MemoryDeallocation" && memory.bytes != kAbsent) memory.bytes = -memory.bytes;
    row.args =
        t_.args.intern(fmt::format(R"({{"Device Type":1,"Device Id":{}}})", std::max<std::int64_t>(0, host.device)));
    row.ph = 'i';
    row.side = EventRows::side(t_.memory_ids, memory);
  } else if (what.kind != EventKind::kOverhead) {
    // The JSON has allocations without their sizes.
    if (what.kind == EventKind::kMemory) row.category = rows.category("cpu_op", EventKind::kOp);
    row.side = EventRows::side(t_.op_ids, OpIds{});
  }
  rows.add(row);
}

// Functions of jax.Array that return when its value is there, as the Python tracer names them ("$array.py:311 _value").
static bool asks_for_results(std::string_view python) {
  return python.ends_with(" block_until_ready") || python.ends_with(" _value");
}

void XlaRows::add_waits() {
  constexpr Ns kSoon = 2 * kNsPerMs;
  // Behind the GPU's work the host marks every array of the result as ready. Profiled that takes 0.3 to 0.8 ms, which vary from step
  // to step. What it takes unprofiled is work of the host; what is more is the wait's, as profilers delay it.
  const Ns recorded = default_latencies().result_ready;
  struct HostStep {
    std::uint32_t event;
    Ns host = INT64_MIN;   // end of the last row inside it
    Ns asked = INT64_MIN;  // since when Python asks for the result
  };
  std::vector<HostStep> steps;
  std::unordered_map<std::int64_t, std::uint32_t> calls;
  for (std::uint32_t e = 0; e < t_.size(); ++e) {
    if (t_.kind(e) == EventKind::kAnnotation && t_.name(e).starts_with("StepTraceAnnotation#")) steps.push_back({e});
    if (t_.kind(e) == EventKind::kRuntime && t_.events.correlation[e] != kAbsent) calls[t_.events.correlation[e]] = e;
  }
  if (steps.empty()) return;
  std::sort(steps.begin(), steps.end(),
            [&](const HostStep& a, const HostStep& b) { return t_.events.start[a.event] < t_.events.start[b.event]; });
  // The step a moment of a thread is in.
  const auto step_of = [&](Ns when, LaneId lane) -> HostStep* {
    const auto behind = std::upper_bound(steps.begin(), steps.end(), when,
                                         [&](Ns t, const HostStep& s) { return t < t_.events.start[s.event]; });
    if (behind == steps.begin()) return nullptr;
    HostStep& s = *(behind - 1);
    return when < t_.end(s.event) && t_.events.lane[s.event] == lane ? &s : nullptr;
  };
  std::unordered_map<std::uint32_t, Ns> gpu_end;  // by step
  for (std::uint32_t e = 0; e < t_.size(); ++e) {
    const EventKind kind = t_.kind(e);
    if (is_gpu_work(kind)) {
      const auto call = calls.find(t_.events.correlation[e]);
      if (call == calls.end()) continue;
      const HostStep* s = step_of(t_.events.start[call->second], t_.events.lane[call->second]);
      if (s == nullptr) continue;
      Ns& end = gpu_end.try_emplace(s->event, INT64_MIN).first->second;
      end = std::max(end, t_.end(e));
    } else if ((kind == EventKind::kOp || kind == EventKind::kRuntime || kind == EventKind::kMemory)) {
      HostStep* s = step_of(t_.events.start[e], t_.events.lane[e]);
      if (s != nullptr) s->host = std::max(s->host, t_.end(e));
    } else if (kind == EventKind::kPython && asks_for_results(t_.name(e))) {
      HostStep* s = step_of(t_.events.start[e], t_.events.lane[e]);
      if (s != nullptr && t_.end(e) <= t_.end(s->event)) s->asked = std::max(s->asked, t_.events.start[e]);
    }
  }
  const std::uint16_t category = rows.category("inferred_wait", EventKind::kRuntime);
  const StringId name = t_.strings.intern("cudaDeviceSynchronize");
  for (const HostStep& s : steps) {
    const auto end = gpu_end.find(s.event);
    const Ns until = t_.end(s.event);
    if (end == gpu_end.end() || s.host == INT64_MIN || end->second > until) continue;
    EventRow e;
    const bool asked = s.asked != INT64_MIN;
    const bool soon = until - end->second <= kSoon;
    if (end->second > s.host && (asked || soon)) {
      e.start = s.host;
      e.duration = (soon ? std::max(end->second, until - recorded) : end->second) - s.host;
    } else if (end->second <= s.host && asked) {
      // The GPU was done before a host that the profiler delays came to ask. Without the profiler it waits.
      e.start = std::max(s.asked, end->second);
      e.duration = 1;
    } else {
      continue;
    }
    e.name = name;
    e.lane = t_.events.lane[s.event];
    e.category = category;
    rows.add(e);
  }
}

}  // namespace foretrace::trace
