// XLA's profiles (JAX, TensorFlow): plugins/profile/…/HOST.xplane.pb. A GPU is one trace; memory on top of the columns is its work
// and the compiled programs.

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "trace/importers/device_clock.hpp"
#include "trace/importers/importer.hpp"
#include "trace/importers/json_text.hpp"
#include "trace/importers/proto_wire.hpp"
#include "trace/importers/xla_rows.hpp"
#include "trace/importers/xplane_file.hpp"
#include "trace/machine.hpp"

namespace foretrace::trace {

namespace {

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
    // The GPU first: what it did shows which rows of the host are launches.
    if (gpu_plane < planes.size()) {
      device_ = *xla_gpu(planes[gpu_plane].name);
      read_gpu(planes[gpu_plane]);
    }
    for (std::size_t p = 0; p < planes.size(); ++p) {
      if (planes[p].name.starts_with("/host:") && planes[p].name != "/host:metadata" &&
          planes[p].name != kRecorderPlane)
        read_host(planes[p]);
    }
    out_.add_waits();
    // Newer profilers of XLA count from the profile's start, older ones write the time of day.
    constexpr Ns kTimeOfDay = Ns{1} << 60;
    if (profile_start_ > 0 && t_.size() > 0 && t_.events.start[0] < kTimeOfDay) t_.base_time_ns = profile_start_;
    if (bad_events > 0) {
      t_.diagnostics.add("malformed_record", Severity::kDataLoss, "events that are no messages were left out", {}, -1,
                         bad_events);
    }
    if (out_.unknown > 0) {
      t_.diagnostics.add("unknown_instruction", Severity::kInfo,
                         "kernels of a compiled program whose instruction is not known", {}, -1, out_.unknown);
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
    profile_start_ = plane_stats(plane, names).number(XStat::kStart, 0);
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
          if (stat.what == XStat::kProgram) id = stat.number;
          if (stat.what == XStat::kHloProto) proto = stat.text;
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
    const XStats about = plane_stats(plane, names);
    if (const StringId name = text_of(about, XStat::kGpuName); name.valid()) gpu.name = t_.strings[name];
    gpu.sm_count = about.number(XStat::kSms, gpu.sm_count);
    gpu.total_memory_bytes = about.number(XStat::kMemory, gpu.total_memory_bytes);
    gpu.compute_major = about.number(XStat::kMajor, gpu.compute_major);
    gpu.compute_minor = about.number(XStat::kMinor, gpu.compute_minor);
    if (!gpu.name.empty() || gpu.sm_count > 0) t_.devices.push_back(gpu);

    const bool tpu = plane.name.starts_with("/device:TPU");
    if (tpu) t_.metadata.emplace_back(kAcceleratorKey, "\"TPU\"");
    const std::uint16_t derived = out_.rows.category("xla_derived", EventKind::kOther);
    std::vector<XlaWork> works;
    Event event;
    each_line(plane, [&](const Line& line, std::uint64_t begin, std::uint64_t end) {
      std::optional<std::int64_t> stream = xla_stream(line.name);
      if (!stream && tpu && line.name == "XLA Ops") stream = line.id;
      each_event(begin, end, [&](std::string_view bytes) {
        if (!read_event(bytes, names, line, event)) return;
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
        works.push_back(work_of(event, *stream));
      });
    });
    out_.add_works(works);
  }

  XlaWork work_of(const Event& event, std::int64_t stream) {
    const XStats& stats = event.stats;
    XlaWork w;
    w.start = event.start;
    w.duration = event.duration;
    w.name = event.name;
    w.device = device_;
    w.stream = stream;
    w.correlation = stats.number(XStat::kCorrelation, w.correlation);
    if (stats.has(XStat::kContext)) {
      const XStatValue& context = stats.at(XStat::kContext);
      w.context = context.kept.valid() ? xla_number(t_.strings[context.kept]) : context.number;
    }
    w.graph = stats.number(XStat::kGraph, w.graph);
    w.node = stats.number(XStat::kNode, w.node);
    w.program = stats.number(XStat::kProgram, w.program);
    for (const XStat details : {XStat::kKernelDetails, XStat::kCopyDetails, XStat::kFillDetails}) {
      if (stats.has(details)) w.details = text_of(stats.at(details));
    }
    w.instruction = text_of(stats, XStat::kHloOp);
    w.module = text_of(stats, XStat::kHloModule);
    return w;
  }

  void read_host(const XPlane& plane) {
    const Names names = read_names(plane);
    Event event;
    each_line(plane, [&](const Line& line, std::uint64_t begin, std::uint64_t end) {
      const LaneId lane = out_.rows.lane(LaneKind::kCpuThread, 0, line.id);
      t_.lanes[lane.index()].name = t_.strings.intern(line.name);
      t_.lanes[lane.index()].process_name = t_.strings.intern(plane.name);
      each_event(begin, end, [&](std::string_view bytes) {
        if (read_event(bytes, names, line, event)) host_event(event, lane);
      });
    });
  }

  void host_event(const Event& event, LaneId lane) {
    const XStats& stats = event.stats;
    XlaHost row;
    row.start = event.start;
    row.duration = event.duration;
    row.name = event.name;
    row.lane = lane;
    row.step = stats.number(XStat::kStep, kAbsent);
    row.correlation = stats.number(XStat::kCorrelation, kAbsent);
    const std::int64_t device = stats.number(XStat::kDevice, kAbsent);
    const bool call = row.step == kAbsent &&
                      (row.correlation != kAbsent || xla_host_kind(t_.strings[event.name]) == EventKind::kRuntime);
    if (call && device != kAbsent && device_ >= 0 && device != device_) return;  // another GPU's
    row.device = device_;
    row.memory.address = stats.number(XStat::kAddress, kAbsent);
    row.memory.bytes = stats.number(XStat::kAllocation, 0);
    row.memory.total_allocated = stats.number(XStat::kAllocated, kAbsent);
    row.memory.total_reserved = stats.number(XStat::kReserved, kAbsent);
    out_.add_host(row);
  }

  Trace& t_;
  XlaRows out_;
  std::vector<std::unique_ptr<std::string>> protos_;
  std::int64_t device_ = -1;
  Ns profile_start_ = 0;
};

// There is no magic number: the first plane's name shows.
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
  return contains(head, "/host:CPU") || contains(head, "/device:GPU:") ? 60 : 0;
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
  align_device_clock(trace);
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
