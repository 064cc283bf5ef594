// XLA's profiles (JAX, TensorFlow): plugins/profile/…/HOST.xplane.pb. A GPU is one trace; memory beside the columns is its work
// and the compiled programs.

#include <fmt/format.h>

#include <algorithm>

#include "trace/importers/importer.hpp"
#include "trace/importers/json_text.hpp"
#include "trace/importers/proto_wire.hpp"
#include "trace/importers/xla_rows.hpp"
#include "trace/importers/xplane_file.hpp"

namespace foretrace::trace {

namespace {

using Stat = XStat;

constexpr std::string_view kRecorderPlane = "/host:foretrace";  // python/foretrace/_recorder_jax.py writes it

class Reader : public XplaneFile {
 public:
  Reader(SeekableSource& source, Trace& trace, const LoadOptions& options)
      : XplaneFile(source, trace, options), t_(trace), out_(trace) {}

  void run(std::size_t gpu_plane) {
    for (const XPlane& plane : planes) {
      if (plane.name == "/host:metadata") read_programs(plane);
      if (plane.name == "Task Environment") read_environment(plane);
      if (plane.name == kRecorderPlane) read_recorder(plane);
    }
    for (std::size_t p = 0; p < planes.size(); ++p) {
      if (p == gpu_plane) device_ = *xla_gpu(planes[p].name);
    }
    for (std::size_t p = 0; p < planes.size(); ++p) {
      if (p == gpu_plane) read_gpu(planes[p]);
      if (planes[p].name.starts_with("/host:") && planes[p].name != "/host:metadata" &&
          planes[p].name != kRecorderPlane)
        read_host(planes[p]);
    }
    out_.add_waits();
    if (bad_events > 0) {
      t_.diagnostics.add("malformed_record", Severity::kDataLoss, "events that are no messages were left out", {}, -1,
                         bad_events);
    }
    if (out_.unknown > 0) {
      t_.diagnostics.add("unknown_instruction", Severity::kInfo,
                         "kernels of a compiled program whose instruction could not be told", {}, -1, out_.unknown);
    }
  }

 private:
  // What our own recorder measured, as JSON in the plane's only stat.
  void read_recorder(const XPlane& plane) {
    ProtoCursor c(file, plane.begin, plane.end);
    while (c.next()) {
      if (c.field != 6 || !c.packed) continue;
      for (ProtoWire stat(c.bytes()); stat.next();) {
        if (stat.field == 5 && stat.bytes.starts_with('{')) t_.metadata.emplace_back("foretrace", stat.bytes);
      }
    }
  }

  void read_environment(const XPlane& plane) {
    const Names names = read_names(plane);
    each_plane_stat(plane, names, [&](const XStatValue& stat) {
      if (stat.what == Stat::kStart) t_.base_time_ns = std::max<Ns>(0, stat.number);
    });
  }

  // Compiled programs: events' metadata that carry an HloProto.
  void read_programs(const XPlane& plane) {
    const Names names = read_names(plane);
    ProtoCursor c(file, plane.begin, plane.end);
    while (c.next()) {
      if (c.field != 4 || !c.packed) continue;
      std::string name;
      std::int64_t id = kAbsent;
      std::string proto;
      for (ProtoWire entry(c.bytes()); entry.next();) {
        if (entry.field != 2) continue;
        for (ProtoWire value(entry.bytes); value.next();) {
          if (value.field == 2) name = valid(value.bytes);
          XStatValue stat;
          if (value.field != 5 || !read_stat(value.bytes, names, stat)) continue;
          if (stat.what == Stat::kProgram) id = stat.number;
          if (stat.what == Stat::kHloProto) proto = stat.text;
        }
      }
      if (proto.empty()) continue;
      if (id == kAbsent) id = -2 - static_cast<std::int64_t>(protos_.size());
      protos_.push_back(std::make_unique<std::string>(std::move(proto)));
      out_.add_program(id, name, *protos_.back());
    }
  }

  void read_gpu(const XPlane& plane) {
    const Names names = read_names(plane);
    DeviceProperties gpu;
    gpu.id = device_;
    each_plane_stat(plane, names, [&](const XStatValue& stat) {
      switch (stat.what) {
        case Stat::kGpuName:
          gpu.name = std::string(t_.strings[text_of(stat)]);
          break;
        case Stat::kSms:
          gpu.sm_count = stat.number;
          break;
        case Stat::kMemory:
          gpu.total_memory_bytes = stat.number;
          break;
        case Stat::kMajor:
          gpu.compute_major = stat.number;
          break;
        case Stat::kMinor:
          gpu.compute_minor = stat.number;
          break;
        default:
          break;
      }
    });
    if (!gpu.name.empty() || gpu.sm_count > 0) t_.devices.push_back(gpu);

    const bool tpu = plane.name.starts_with("/device:TPU");
    const std::uint16_t derived = out_.rows.category("xla_derived", EventKind::kOther);
    std::vector<XlaWork> works;
    ProtoCursor c(file, plane.begin, plane.end);
    while (c.next()) {
      if (c.field != 3 || !c.packed) continue;
      const std::uint64_t begin = c.begin;
      const std::uint64_t end = c.end;
      const Line line = read_line(begin, end);
      std::optional<std::int64_t> stream = xla_stream(line.name);
      if (!stream && tpu && line.name == "XLA Ops") stream = line.id;
      each_event(begin, end, [&](std::string_view bytes) {
        XlaWork w;
        Event event;
        const bool good = read_event(bytes, names, line, event, [&](const XStatValue& stat) { work_stat(stat, w); });
        if (!good) return;
        if (!stream) {
          EventRow row;
          row.start = event.start;
          row.duration = event.duration;
          row.name = event.name;
          row.lane = out_.rows.lane(LaneKind::kOther, device_, line.id);
          row.category = derived;
          out_.rows.add(row);
          return;
        }
        w.start = event.start;
        w.duration = event.duration;
        w.name = event.name;
        w.device = device_;
        w.stream = *stream;
        works.push_back(w);
      });
    }
    out_.add_works(works);
  }

  void work_stat(const XStatValue& stat, XlaWork& w) {
    switch (stat.what) {
      case Stat::kCorrelation:
        w.correlation = stat.number;
        break;
      case Stat::kContext:
        w.context = stat.kept.valid() ? xla_number(t_.strings[stat.kept]) : stat.number;
        break;
      case Stat::kGraph:
        w.graph = stat.number;
        break;
      case Stat::kNode:
        w.node = stat.number;
        break;
      case Stat::kKernelDetails:
      case Stat::kCopyDetails:
      case Stat::kFillDetails:
        w.details = text_of(stat);
        break;
      case Stat::kHloOp:
        w.instruction = text_of(stat);
        break;
      case Stat::kHloModule:
        w.module = text_of(stat);
        break;
      case Stat::kProgram:
        w.program = stat.number;
        break;
      default:
        break;
    }
  }

  void read_host(const XPlane& plane) {
    const Names names = read_names(plane);
    ProtoCursor c(file, plane.begin, plane.end);
    while (c.next()) {
      if (c.field != 3 || !c.packed) continue;
      const std::uint64_t begin = c.begin;
      const std::uint64_t end = c.end;
      const Line line = read_line(begin, end);
      const LaneId lane = out_.rows.lane(LaneKind::kCpuThread, 0, line.id);
      t_.lanes[lane.index()].name = t_.strings.intern(line.name);
      t_.lanes[lane.index()].process_name = t_.strings.intern(plane.name);
      each_event(begin, end, [&](std::string_view bytes) { host_event(bytes, names, line, lane); });
    }
  }

  void host_event(std::string_view bytes, const Names& names, const Line& line, LaneId lane) {
    std::int64_t step = kAbsent, correlation = kAbsent, device = kAbsent;
    MemoryIds memory;
    Event event;
    const bool good = read_event(bytes, names, line, event, [&](const XStatValue& stat) {
      switch (stat.what) {
        case Stat::kStep:
          step = stat.number;
          break;
        case Stat::kCorrelation:
          correlation = stat.number;
          break;
        case Stat::kDevice:
          device = stat.number;
          break;
        case Stat::kAddress:
          memory.address = stat.number;
          break;
        case Stat::kAllocation:
          memory.bytes = stat.number;
          break;
        case Stat::kAllocated:
          memory.total_allocated = stat.number;
          break;
        case Stat::kReserved:
          memory.total_reserved = stat.number;
          break;
        default:
          break;
      }
    });
    if (!good) return;
    EventRow row;
    row.start = event.start;
    row.duration = event.duration;
    row.name = event.name;
    row.lane = lane;
    EventKind kind = xla_host_kind(t_.strings[event.name]);
    if (step != kAbsent) kind = EventKind::kAnnotation;
    switch (kind) {
      case EventKind::kAnnotation:
        row.args = t_.args.intern(fmt::format(R"({{"step_num":{}}})", step));
        row.name = out_.step_name(step);
        row.category = out_.rows.category("user_annotation", kind);
        row.side = EventRows::side(t_.op_ids, OpIds{});
        break;
      case EventKind::kRuntime: {
        if (device != kAbsent && device_ >= 0 && device != device_) return;  // another GPU's
        const std::string name(xla_call_name(t_.strings[event.name]));
        row.name = t_.strings.intern(name);
        row.correlation = correlation;
        row.category = out_.rows.category(
            name.starts_with("cuda") || name.starts_with("hip") ? "cuda_runtime" : "cuda_driver", kind);
        break;
      }
      case EventKind::kPython:
        row.category = out_.rows.category("python_function", kind);
        row.side = EventRows::side(t_.python_ids, PythonIds{});
        break;
      case EventKind::kMemory:
        if (t_.strings[event.name] == "MemoryDeallocation") memory.bytes = -memory.bytes;
        row.args =
            t_.args.intern(fmt::format(R"({{"Device Type":1,"Device Id":{}}})", std::max<std::int64_t>(0, device_)));
        row.category = out_.rows.category("cpu_instant_event", kind);
        row.ph = 'i';
        row.side = EventRows::side(t_.memory_ids, memory);
        break;
      case EventKind::kOverhead:
        row.category = out_.rows.category("overhead", kind);
        break;
      default:
        row.category = out_.rows.category("cpu_op", EventKind::kOp);
        row.side = EventRows::side(t_.op_ids, OpIds{});
        break;
    }
    out_.rows.add(row);
  }

  Trace& t_;
  XlaRows out_;
  std::vector<std::unique_ptr<std::string>> protos_;
  std::int64_t device_ = -1;
};

// There is no magic number: the first plane's name tells.
int sniff_xplane(std::string_view head) {
  if (!head.starts_with('\n')) return 0;  // field 1, a message
  constexpr std::size_t kLongestHead = 11;
  std::size_t at = 1;
  while (at < head.size() && at < kLongestHead && static_cast<unsigned char>(head[at]) >= 0x80) ++at;
  const std::string_view plane = head.substr(std::min(head.size(), at + 1));
  for (ProtoWire w(plane); w.next() && w.field <= 2;) {
    if (w.field != 2) continue;
    for (const std::string_view start : {"/host:", "/device:", "Task Environment", "/task"}) {
      if (w.bytes.starts_with(start)) return 100;
    }
  }
  return head.find("/host:CPU") != std::string_view::npos || head.find("/device:GPU:") != std::string_view::npos ? 60
                                                                                                                 : 0;
}

Result<Trace> read_xplane(SeekableSource& source, const std::string& path, const LoadOptions& options,
                          const Part& part) {
  Trace trace;
  trace.path = path;
  trace.format = "xplane";
  trace.input_bytes = source.size();
  Reader reader(source, trace, options);
  FORETRACE_TRY_VOID(reader.find_planes());
  const std::vector<std::size_t> gpus = reader.gpus();
  if (part.index > 0 && part.index >= gpus.size()) {
    return fail(ErrorCode::kUsage, fmt::format("the file holds {} GPUs; there is no #{}", gpus.size(), part.index));
  }
  if (gpus.size() > 1) {
    trace.distributed.present = true;
    trace.distributed.rank = static_cast<std::int64_t>(part.index);
    trace.distributed.world_size = static_cast<std::int64_t>(gpus.size());
    if (!part.named) {
      trace.diagnostics.add("several_gpus", Severity::kInfo, "the file holds several GPUs; this is the first",
                            fmt::format("{} GPUs; {}#1 is the next", gpus.size(), path));
    }
  }
  reader.run(gpus.empty() ? SIZE_MAX : gpus[part.index]);
  trace.args.decode(trace.strings);
  return trace;
}

std::size_t count_xplane(SeekableSource& source) {
  Trace scratch;
  LoadOptions options;
  options.partial = true;
  Reader reader(source, scratch, options);
  if (!reader.find_planes()) return 1;
  return std::max<std::size_t>(1, reader.gpus().size());
}

}  // namespace

Importer xplane_importer() {
  return {.name = "xplane",
          .about = "XLA profiles (JAX, TensorFlow): HOST.xplane.pb with the compiled programs",
          .extensions = ".xplane.pb .xplane.pb.gz",
          .sniff = sniff_xplane,
          .read_part = read_xplane,
          .count_parts = count_xplane};
}

}  // namespace foretrace::trace
