// XLA's profiles (JAX, TensorFlow): plugins/profile/…/HOST.xplane.pb, an XSpace of planes of lines of events. A GPU is one
// trace. Field numbers are those of tsl/profiler/protobuf/xplane.proto.
//
// Metadata stands behind the lines that refer to it, so that a plane is gone over twice; memory beside the columns is the
// work of one GPU and the compiled programs.

#include <fmt/format.h>

#include <algorithm>

#include "trace/importers/importer.hpp"
#include "trace/importers/json_text.hpp"
#include "trace/importers/proto_wire.hpp"
#include "trace/importers/xla_rows.hpp"

namespace foretrace::trace {

namespace {

struct Plane {
  std::uint64_t begin = 0, end = 0;
  std::string name;
  bool has_lines = false;
};

// Stats that mean something here; all others are left alone.
enum class Stat : std::uint8_t {
  kNone,
  kCorrelation,
  kContext,
  kGraph,
  kNode,
  kKernelDetails,
  kCopyDetails,
  kFillDetails,
  kHloOp,
  kHloModule,
  kProgram,
  kStep,
  kDevice,
  kAddress,
  kAllocation,
  kAllocated,
  kReserved,
  kHloProto,
  kStart,
  kVendor,
  kGpuName,
  kSms,
  kMemory,
  kMajor,
  kMinor
};
Stat stat_of(std::string_view name) {
  static const std::unordered_map<std::string_view, Stat> kKnown = {
      {"correlation_id", Stat::kCorrelation},
      {"context_id", Stat::kContext},
      {"cuda_graph_id", Stat::kGraph},
      {"cuda_graph_node_id", Stat::kNode},
      {"kernel_details", Stat::kKernelDetails},
      {"memcpy_details", Stat::kCopyDetails},
      {"memset_details", Stat::kFillDetails},
      {"Memset_details", Stat::kFillDetails},
      {"hlo_op", Stat::kHloOp},
      {"hlo_module", Stat::kHloModule},
      {"program_id", Stat::kProgram},
      {"step_num", Stat::kStep},
      {"device_id", Stat::kDevice},
      {"addr", Stat::kAddress},
      {"allocation_bytes", Stat::kAllocation},
      {"bytes_allocated", Stat::kAllocated},
      {"bytes_reserved", Stat::kReserved},
      {"Hlo Proto", Stat::kHloProto},
      {"hlo_proto", Stat::kHloProto},
      {"profile_start_time", Stat::kStart},
      {"device_vendor", Stat::kVendor},
      {"gpu_device_name", Stat::kGpuName},
      {"core_count", Stat::kSms},
      {"memory_size", Stat::kMemory},
      {"compute_cap_major", Stat::kMajor},
      {"compute_cap_minor", Stat::kMinor},
  };
  const auto it = kKnown.find(name);
  return it == kKnown.end() ? Stat::kNone : it->second;
}

/// One stat of an event or a plane: a number, or a text (its own or one the plane keeps).
struct StatValue {
  Stat what = Stat::kNone;
  std::int64_t number = 0;
  std::string_view text;
  StringId kept;  ///< where the text is one of the plane's
};

class Reader {
 public:
  Reader(SeekableSource& source, Trace& trace, const LoadOptions& options)
      : file_(source), t_(trace), options_(options), out_(trace) {}

  std::vector<Plane> planes;

  // XSpace: planes = 1.
  Status find_planes() {
    ProtoCursor space(file_, 0, file_.size());
    while (space.next()) {
      if (space.field != 1 || !space.packed) continue;
      Plane plane{space.begin, space.end, {}, false};
      ProtoCursor inside(file_, plane.begin, plane.end);
      while (inside.next()) {
        if (inside.field == 2 && inside.packed && plane.name.empty()) plane.name = make_valid_utf8(inside.bytes());
        plane.has_lines = plane.has_lines || (inside.field == 3 && inside.packed);
      }
      damaged_ = damaged_ || inside.bad();
      cut_ = cut_ || inside.cut();
      planes.push_back(std::move(plane));
    }
    cut_ = cut_ || space.cut();
    damaged_ = damaged_ || space.bad();
    if (!cut_ && !damaged_) return {};
    const char* what = cut_ ? "the file is cut off: it ends inside a message" : "the file is damaged: what should be a "
                                                                                "message is none";
    if (!options_.partial) {
      return fail(ErrorCode::kUnreadable, what, "copy it again; --partial reads what can be read");
    }
    t_.partial = true;
    t_.diagnostics.add("truncated_input", Severity::kDataLoss,
                       "the input is cut off or damaged; what came before was read", what);
    return {};
  }

  [[nodiscard]] std::vector<std::size_t> gpus() const {
    std::vector<std::size_t> out;
    for (std::size_t p = 0; p < planes.size(); ++p) {
      if (planes[p].has_lines && xla_gpu(planes[p].name)) out.push_back(p);
    }
    std::stable_sort(out.begin(), out.end(), [&](std::size_t a, std::size_t b) {
      return *xla_gpu(planes[a].name) < *xla_gpu(planes[b].name);
    });
    return out;
  }

  void run(std::size_t gpu_plane) {
    for (const Plane& plane : planes) {
      if (plane.name == "/host:metadata") read_programs(plane);
      if (plane.name == "Task Environment") read_environment(plane);
    }
    for (std::size_t p = 0; p < planes.size(); ++p) {
      if (p == gpu_plane) device_ = *xla_gpu(planes[p].name);
    }
    for (std::size_t p = 0; p < planes.size(); ++p) {
      if (p == gpu_plane) read_gpu(planes[p]);
      if (planes[p].name.starts_with("/host:") && planes[p].name != "/host:metadata") read_host(planes[p]);
    }
    out_.add_waits();
    if (bad_events_ > 0) {
      t_.diagnostics.add("malformed_record", Severity::kDataLoss, "events that are no messages were left out", {}, -1,
                         bad_events_);
    }
    if (out_.unknown > 0) {
      t_.diagnostics.add("unknown_instruction", Severity::kInfo,
                         "kernels of a compiled program whose instruction could not be told", {}, -1, out_.unknown);
    }
  }

 private:
  // What the events of a plane refer to.
  struct Names {
    std::unordered_map<std::uint64_t, StringId> events, texts;
    std::unordered_map<std::uint64_t, Stat> stats;
  };

  // event_metadata = 4 and stat_metadata = 5 are maps: key = 1, value = 2 {name = 2, stats = 5}.
  Names read_names(const Plane& plane) {
    Names names;
    ProtoCursor c(file_, plane.begin, plane.end);
    while (c.next()) {
      if ((c.field != 4 && c.field != 5) || !c.packed) continue;
      std::uint64_t key = 0;
      std::string_view name;
      for (ProtoWire entry(c.bytes()); entry.next();) {
        if (entry.field == 1) key = entry.number;
        for (ProtoWire value(entry.bytes); entry.field == 2 && value.next();) {
          if (value.field == 2) name = value.bytes;
        }
      }
      const StringId id = t_.strings.intern(valid(name));
      if (c.field == 4) {
        names.events[key] = id;
      } else {
        names.texts[key] = id;
        if (const Stat stat = stat_of(name); stat != Stat::kNone) names.stats[key] = stat;
      }
    }
    return names;
  }

  std::string_view valid(std::string_view text) {
    const bool plain = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
    if (plain) return text;
    valid_ = make_valid_utf8(text);
    return valid_;
  }

  // XStat: metadata_id = 1, double = 2, uint64 = 3, int64 = 4, str = 5, bytes = 6, ref = 7.
  static bool read_stat(std::string_view bytes, const Names& names, StatValue& out) {
    out = {};
    for (ProtoWire w(bytes); w.next();) {
      switch (w.field) {
        case 1: {
          const auto it = names.stats.find(w.number);
          if (it == names.stats.end()) return false;
          out.what = it->second;
          break;
        }
        case 2: {
          const double real = w.real();
          constexpr double kMost = 9e18;
          if (real > -kMost && real < kMost) out.number = static_cast<std::int64_t>(real);
          break;
        }
        case 3:
        case 4:
          out.number = w.integer();
          break;
        case 5:
        case 6:
          out.text = w.bytes;
          out.number = xla_number(w.bytes);
          break;
        case 7: {
          const auto it = names.texts.find(w.number);
          if (it != names.texts.end()) out.kept = it->second;
          break;
        }
        default:
          break;
      }
    }
    return out.what != Stat::kNone;
  }

  StringId text_of(const StatValue& stat) {
    return stat.kept.valid() ? stat.kept : t_.strings.intern(valid(stat.text));
  }

  struct Line {
    std::int64_t id = 0;
    std::string name;
    Ns start = 0;
  };
  // XLine: id = 1, name = 2, timestamp_ns = 3, events = 4, display_id = 10, display_name = 11.
  Line read_line(std::uint64_t begin, std::uint64_t end) {
    Line line;
    ProtoCursor c(file_, begin, end);
    while (c.next()) {
      if (c.field == 1) line.id = static_cast<std::int64_t>(c.number);
      if (c.field == 3) line.start = static_cast<Ns>(c.number);
      if (c.field == 2 && c.packed) line.name = valid(c.bytes());
    }
    return line;
  }

  // XEvent: metadata_id = 1, offset_ps = 2, duration_ps = 3, stats = 4.
  struct Event {
    Ns start = 0, duration = 0;
    StringId name;
  };
  template <class OnStat>
  bool read_event(std::string_view bytes, const Names& names, const Line& line, Event& out, OnStat on_stat) {
    constexpr std::int64_t kPsPerNs = 1000;
    std::int64_t offset = 0;
    std::int64_t length = 0;
    std::uint64_t name = 0;
    ProtoWire w(bytes);
    while (w.next()) {
      if (w.field == 1) name = w.number;
      if (w.field == 2) offset = w.integer();
      if (w.field == 3) length = w.integer();
      if (w.field != 4) continue;
      StatValue stat;
      if (read_stat(w.bytes, names, stat)) on_stat(stat);
    }
    constexpr std::int64_t kMost = std::int64_t{1} << 61;
    if (w.bad() || offset < -kMost || offset > kMost || length < 0 || length > kMost || line.start < -kMost ||
        line.start > kMost) {
      ++bad_events_;
      return false;
    }
    const auto it = names.events.find(name);
    out.name = it == names.events.end() ? t_.strings.intern(fmt::format("(event {})", name)) : it->second;
    out.start = line.start + offset / kPsPerNs;
    out.duration = (offset + length) / kPsPerNs - offset / kPsPerNs;
    return true;
  }

  template <class OnEvent>
  void each_event(std::uint64_t begin, std::uint64_t end, OnEvent on_event) {
    ProtoCursor c(file_, begin, end);
    while (c.next()) {
      if (c.field != 4 || !c.packed || c.cut()) continue;
      if (++events_ % 65536 == 0 && options_.progress) {
        options_.progress("reading " + t_.path, c.end, file_.size(), kBytes);
      }
      on_event(c.bytes());
    }
  }

  void read_environment(const Plane& plane) {
    const Names names = read_names(plane);
    each_plane_stat(plane, names, [&](const StatValue& stat) {
      if (stat.what == Stat::kStart) t_.base_time_ns = std::max<Ns>(0, stat.number);
    });
  }

  template <class OnStat>
  void each_plane_stat(const Plane& plane, const Names& names, OnStat on_stat) {
    ProtoCursor c(file_, plane.begin, plane.end);
    while (c.next()) {
      StatValue stat;
      if (c.field == 6 && c.packed && read_stat(c.bytes(), names, stat)) on_stat(stat);
    }
  }

  // Compiled programs: events' metadata that carry an HloProto.
  void read_programs(const Plane& plane) {
    const Names names = read_names(plane);
    ProtoCursor c(file_, plane.begin, plane.end);
    while (c.next()) {
      if (c.field != 4 || !c.packed) continue;
      std::string name;
      std::int64_t id = kAbsent;
      std::string proto;
      for (ProtoWire entry(c.bytes()); entry.next();) {
        if (entry.field != 2) continue;
        for (ProtoWire value(entry.bytes); value.next();) {
          if (value.field == 2) name = valid(value.bytes);
          StatValue stat;
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

  void read_gpu(const Plane& plane) {
    const Names names = read_names(plane);
    DeviceProperties gpu;
    gpu.id = device_;
    each_plane_stat(plane, names, [&](const StatValue& stat) {
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
    ProtoCursor c(file_, plane.begin, plane.end);
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
        const bool good = read_event(bytes, names, line, event, [&](const StatValue& stat) { work_stat(stat, w); });
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

  void work_stat(const StatValue& stat, XlaWork& w) {
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

  void read_host(const Plane& plane) {
    const Names names = read_names(plane);
    ProtoCursor c(file_, plane.begin, plane.end);
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
    const bool good = read_event(bytes, names, line, event, [&](const StatValue& stat) {
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
        row.category = out_.rows.category(name.starts_with("cuda") || name.starts_with("hip") ? "cuda_runtime" : "cuda_driver", kind);
        break;
      }
      case EventKind::kPython:
        row.category = out_.rows.category("python_function", kind);
        row.side = EventRows::side(t_.python_ids, PythonIds{});
        break;
      case EventKind::kMemory:
        if (t_.strings[event.name] == "MemoryDeallocation") memory.bytes = -memory.bytes;
        row.args = t_.args.intern(fmt::format(R"({{"Device Type":1,"Device Id":{}}})", std::max<std::int64_t>(0, device_)));
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

  ProtoFile file_;
  Trace& t_;
  const LoadOptions& options_;
  XlaRows out_;
  std::vector<std::unique_ptr<std::string>> protos_;
  std::string valid_;
  std::int64_t device_ = -1;
  std::uint64_t bad_events_ = 0, events_ = 0;
  bool cut_ = false, damaged_ = false;
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
  return head.find("/host:CPU") != std::string_view::npos || head.find("/device:GPU:") != std::string_view::npos ? 60 : 0;
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
