// The JSON that XLA's profiler makes of an xplane file (HOST.trace.json.gz): Chrome events without categories, every argument
// a text, no compiled programs and a limit on the number of events. The xplane file next to it holds more.

#include <algorithm>

#include "base/text.hpp"
#include "trace/importers/importer.hpp"
#include "trace/importers/xla_rows.hpp"
#include "trace/machine.hpp"

namespace foretrace::trace {

Importer kineto_importer();

namespace {

int sniff_xla_json(std::string_view head) {
  const bool ours = contains(head, "\"highres-ticks\"");
  const bool planes = contains(head, "/host:CPU") || contains(head, "/device:GPU:");
  return ours && planes ? 95 : 0;
}

class Converter {
 public:
  Converter(const Trace& from, Trace& to) : f_(from), t_(to), out_(to) {}

  void run() {
    std::vector<XlaWork> works;
    std::vector<std::uint32_t> of_host;
    const std::uint16_t about = out_.rows.category("", EventKind::kMetadata);
    const std::uint16_t derived = out_.rows.category("xla_derived", EventKind::kOther);
    bool tpu = false;
    for (std::uint32_t e = 0; e < f_.size(); ++e) {
      const Lane& lane = f_.lanes[f_.events.lane[e].index()];
      const std::string_view plane = f_.strings[lane.process_name];
      const std::optional<std::int64_t> gpu = xla_gpu(plane);
      tpu = tpu || plane.starts_with("/device:TPU:");
      const std::optional<std::int64_t> stream = xla_stream(f_.strings[lane.name]);
      EventRow row;
      row.start = f_.events.start[e];
      row.duration = f_.events.duration[e];
      row.ph = f_.events.ph[e];
      row.name = t_.strings.intern(f_.name(e));
      if (f_.events.ph[e] != 'X') {
        row.lane = out_.rows.lane(LaneKind::kOther, lane.pid_number, lane.tid_number);
        row.category = about;
        out_.rows.add(row);
      } else if (gpu && stream) {
        works.push_back(work(e, *gpu, *stream));
      } else if (gpu) {
        row.lane = out_.rows.lane(LaneKind::kOther, *gpu, lane.tid_number);
        row.category = derived;
        out_.rows.add(row);
      } else {
        of_host.push_back(e);
      }
    }
    if (tpu) t_.metadata.emplace_back(kAcceleratorKey, "\"TPU\"");
    // The GPU first: what it did shows which rows of the host are launches.
    out_.add_works(works);
    for (const std::uint32_t e : of_host) host(e, f_.lanes[f_.events.lane[e].index()]);
    out_.add_waits();
  }

 private:
  // An argument, whose value is a text whatever it means.
  [[nodiscard]] std::optional<std::string> argument(std::uint32_t e, std::string_view key) const {
    const std::optional<std::string> raw = f_.args.find(f_.events.args[e], key);
    if (!raw) return std::nullopt;
    const bool quoted = raw->size() >= 2 && raw->front() == '"';
    return quoted ? raw->substr(1, raw->size() - 2) : *raw;
  }
  [[nodiscard]] std::int64_t number(std::uint32_t e, std::string_view key) const {
    const std::optional<std::string> text = argument(e, key);
    return text ? xla_number(*text) : kAbsent;
  }

  XlaWork work(std::uint32_t e, std::int64_t gpu, std::int64_t stream) {
    XlaWork w;
    w.start = f_.events.start[e];
    w.duration = f_.events.duration[e];
    w.name = t_.strings.intern(f_.name(e));
    for (const char* key : {"kernel_details", "memcpy_details", "memset_details", "Memset_details"}) {
      if (const auto text = argument(e, key)) w.details = t_.strings.intern(*text);
    }
    if (const auto text = argument(e, "hlo_op")) w.instruction = t_.strings.intern(*text);
    if (const auto text = argument(e, "hlo_module")) w.module = t_.strings.intern(*text);
    w.device = gpu;
    w.stream = stream;
    w.context = std::max<std::int64_t>(0, number(e, "context_id"));
    w.correlation = f_.events.correlation[e];
    w.graph = number(e, "cuda_graph_id");
    w.node = number(e, "cuda_graph_node_id");
    return w;
  }

  void host(std::uint32_t e, const Lane& lane) {
    XlaHost row;
    row.start = f_.events.start[e];
    row.duration = f_.events.duration[e];
    row.lane = out_.rows.lane(LaneKind::kCpuThread, lane.pid_number, lane.tid_number);
    t_.lanes[row.lane.index()].name = t_.strings.intern(f_.strings[lane.name]);
    t_.lanes[row.lane.index()].process_name = t_.strings.intern(f_.strings[lane.process_name]);
    // Where a name is too long or has a part, its whole text stands among the arguments.
    row.name = t_.strings.intern(argument(e, "long_name").value_or(std::string(f_.name(e))));
    row.step = number(e, "step_num");
    row.correlation = f_.events.correlation[e];
    out_.add_host(row);
  }

  const Trace& f_;
  Trace& t_;
  XlaRows out_;
};

Result<Trace> read_xla_json(ByteSource& source, const std::string& path, const LoadOptions& options) {
  FORETRACE_TRY(const Trace read, kineto_importer().read(source, path, options));
  Trace trace;
  trace.path = read.path;
  trace.format = "xla-json";
  trace.input_bytes = read.input_bytes;
  trace.partial = read.partial;
  trace.diagnostics = read.diagnostics;
  Converter(read, trace).run();
  trace.args.decode(trace.strings);
  return trace;
}

}  // namespace

Importer xla_json_importer() {
  return {.name = "xla-json",
          .about = "the JSON of XLA profiles (HOST.trace.json.gz); the xplane file next to it says more",
          .extensions = ".trace.json.gz",
          .sniff = sniff_xla_json,
          .read = read_xla_json};
}

}  // namespace foretrace::trace
