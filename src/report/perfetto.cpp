// Chrome JSON for ui.perfetto.dev: processes 'measured' and 'simulated', one track per lane in both, on one clock
// that starts with the step. The measured side keeps the categories of the profiler, so that the file is an ordinary
// trace of that step; the simulated side has categories of its own and adds the critical path as a track.

#include <fmt/format.h>

#include <algorithm>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/host/measured_step.hpp"
#include "report/chrome_events.hpp"
#include "report/exporter.hpp"
#include "report/json_writer.hpp"

namespace foretrace::report {
namespace {

using graph::DependencyKind;
using graph::Graph;
using graph::GraphLane;
using graph::TaskKind;

constexpr std::uint32_t kMeasured = 1, kSimulated = 2;
// Perfetto takes a thread whose id is a process's for that process's main thread: keep clear of both.
constexpr std::uint32_t kFirstTrack = 101;

class Writer {
 public:
  explicit Writer(const ExportInput& input) : step_(input.step), g_(input.step.graph), in_(input) {
    const std::size_t n = g_.size();
    critical_.assign(n, 0);
    for (const analysis::PathSegment& s : step_.path) critical_[s.task] = 1;
    for (const std::uint32_t p : {kMeasured, kSimulated}) shown_[p].resize(n);
    for (const GraphLane& lane : g_.lanes) {
      place(lane, kMeasured);
      place(lane, kSimulated);
    }
    // No time of the file is negative.
    for (const analysis::PathSegment& s : step_.path) events_.origin = std::min(events_.origin, s.start);
    for (const std::uint32_t p : {kMeasured, kSimulated}) {
      for (const Shown& s : shown_[p]) events_.origin = std::min(events_.origin, s.start);
    }
    names_.resize(g_.strings.size());
  }

  std::string run() {
    // Viewers skip what follows a key they do not know, so the events come first.
    out_ = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
    process(kMeasured, "measured", g_.traced);
    process(kSimulated, "simulated", step_.replayed());
    path_track();
    path_flows();
    out_ += "\n],\n\"schemaVersion\": 1";
    for (const std::string_view key :
         {std::string_view("deviceProperties"), std::string_view("distributedInfo"), host::kRecorderKey}) {
      if (const std::string_view raw = in_.file.metadata_value(key); !raw.empty())
        events_.put(",\n\"{}\": {}", key, raw);
    }
    events_.put(",\n\"{}\": ", analysis::kGraphKey);
    append_json_string(out_, graph::dump(g_));
    return std::move(out_) + "}\n";
  }

 private:
  /// A slice as drawn. Waits are drawn from where they begin, which the graph does not hold.
  struct Shown {
    Ns start = 0, duration = 0;
    Ns queued = 0;  ///< before it: the launch queue was full
  };

  Ns measured_duration(std::uint32_t t) const {
    const bool waits = t + 1 < g_.lanes[g_.lane[t]].end && g_.kind[t + 1] == TaskKind::kWait;
    const bool as_traced = g_.kind[t] == TaskKind::kCall ? !waits : graph::is_gpu(g_.kind[t]) && g_.launch[t].valid();
    if (!as_traced || in_.events == nullptr || !g_.event[t].valid()) return g_.cost[t];
    return in_.events->events.duration[g_.event[t].index()];
  }

  // The slices of a lane, none of them into the next: a track shows one thing at a time.
  void place(const GraphLane& lane, std::uint32_t p) {
    const bool measured = p == kMeasured;
    std::vector<Shown>& shown = shown_[p];
    const auto start = [&](std::uint32_t t) { return measured ? g_.measured[t] : step_.start(t); };
    Ns free = lane.begin < lane.end ? start(lane.begin) : 0;
    for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
      const Ns at = start(t);
      Ns end = measured ? at + measured_duration(t) : step_.end(t);
      if (t + 1 < lane.end && g_.kind[t + 1] != TaskKind::kWait) end = std::min(end, std::max(at, start(t + 1)));
      const bool queue = !measured && step_.cause_kind(t) == DependencyKind::kQueue;
      const Ns idle = std::max<Ns>(0, at - free);
      if (g_.kind[t] == TaskKind::kWait) {
        shown[t] = {at - idle, idle, 0};
      } else {
        shown[t] = {at, end - at, queue ? idle : 0};
      }
      free = std::max(free, end);
    }
  }

  const std::string& name(StringId id) {
    std::string& known = names_[id.index()];
    if (known.empty()) known = json_string(g_.strings[id]);
    return known;
  }

  static std::uint32_t track(std::uint32_t p, std::size_t place) {
    return kFirstTrack + static_cast<std::uint32_t>(place) + (p == kSimulated ? 1'000'000u : 0u);
  }
  // Tracks of a process: the step, the critical path (simulated only), then the lanes.
  static constexpr std::size_t kStepTrack = 0, kPathTrack = 1, kFirstLane = 2;

  void name_track(std::uint32_t p, std::size_t place, std::string_view quoted_name) {
    events_.name_track(p, track(p, place), quoted_name, place);
  }

  void begin_slice(std::string_view cat, std::string_view quoted_name, std::uint32_t p, std::size_t place, Ns start,
                   Ns duration) {
    events_.begin_slice(cat, quoted_name, p, track(p, place), start, duration);
  }

  void process(std::uint32_t p, std::string_view label, Ns length) {
    events_.name_process(p, fmt::format("\"{}\"", label), p);
    name_track(p, kStepTrack, "\"step\"");
    for (std::size_t l = 0; l < g_.lanes.size(); ++l) name_track(p, kFirstLane + l, name(g_.lanes[l].name));
    const std::string quoted = json_string(g_.step_name);
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (g_.kind[t] == TaskKind::kBegin) {
        begin_slice(p == kMeasured ? "user_annotation" : "simulated", quoted, p, kStepTrack, 0, length);
        events_.put(R"("ft.task": {}, "ft.kind": "begin"}}}})", t);
      } else if (p != kMeasured || !added(t)) {
        task(p, t);
      }
    }
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (!graph::is_gpu(g_.kind[t]) || !g_.launch[t].valid()) continue;
      const std::uint32_t call = g_.launch[t].value;
      if (p == kMeasured && (added(t) || added(call) || shown_[p][call].start > shown_[p][t].start)) continue;
      flow("ac2g", "launch", p, call, t);
    }
  }

  /// A what-if put it there: nothing of it was measured.
  [[nodiscard]] bool added(std::uint32_t t) const {
    return (graph::is_gpu(g_.kind[t]) || g_.kind[t] == TaskKind::kCall) && !g_.event[t].valid();
  }

  /// CPU time no operation covers, which goes with the call that follows and has its name.
  [[nodiscard]] bool before_call(std::uint32_t t) const {
    return g_.kind[t] == TaskKind::kCpu && t + 1 < g_.lanes[g_.lane[t]].end && g_.kind[t + 1] == TaskKind::kCall &&
           g_.name[t] == g_.name[t + 1];
  }

  std::string quoted_task_name(std::uint32_t t) {
    if (before_call(t)) return json_string(fmt::format("(before {})", g_.task_name(t)));
    if (!g_.task_name(t).empty()) return name(g_.name[t]);
    return g_.kind[t] == TaskKind::kWait ? "\"(another thread)\"" : "\"(no operation follows)\"";
  }

  // Time of a thread that no operation covers is none a profiler would have recorded as one.
  [[nodiscard]] std::string_view category(std::uint32_t p, std::uint32_t t) const {
    if (p == kSimulated) return critical_[t] != 0 ? "critical path" : "simulated";
    const bool named = !g_.task_name(t).empty() && !before_call(t);
    return g_.kind[t] == TaskKind::kCpu && !named ? "user_annotation" : profiler_category(g_.kind[t]);
  }

  void task(std::uint32_t p, std::uint32_t t) {
    const Shown& s = shown_[p][t];
    const std::size_t place = kFirstLane + g_.lane[t];
    if (s.queued > 0) {
      begin_slice("wait", "\"(launch queue full)\"", p, place, s.start - s.queued, s.queued);
      out_ += "}}";
    }
    begin_slice(category(p, t), quoted_task_name(t), p, place, s.start, s.duration);
    events_.put(R"("ft.task": {}, "ft.kind": "{}", "phase": "{}")", t, to_string(g_.kind[t]), to_string(g_.phase[t]));
    if (g_.layer[t].valid()) events_.put(R"(, "layer": {})", name(g_.layers[g_.layer[t].index()].name));
    events_.put(R"(, "cost us": {}, "critical": {})", exact_us(g_.cost[t]), critical_[t] != 0);
    const EventId op = g_.op[t];
    if (in_.events != nullptr && op.valid() && op != g_.event[t]) {
      out_ += ", \"op\": ";
      append_json_string(out_, in_.events->name(op.index()));
    }
    if (p == kMeasured) {
      ids(t);
    } else {
      events_.put(R"(, "cause": "{}")", to_string(step_.cause_kind(t)));
      if (const auto by = step_.cause(t)) events_.put(R"(, "cause task": {})", *by);
      events_.put(R"(, "later than measured us": {})", exact_us(step_.start(t) - g_.measured[t]));
    }
    out_ += "}}";
  }

  // What ties a launch to its work in a profiler's trace. Ids of the file's own: the graph knows tasks only.
  void ids(std::uint32_t t) {
    const GraphLane& lane = g_.lanes[g_.lane[t]];
    if (graph::is_gpu(g_.kind[t])) {
      events_.put(R"(, "device": {}, "stream": {})", lane.device, lane.stream);
      if (g_.launch[t].valid()) events_.put(R"(, "correlation": {})", g_.launch[t].value + 1);
    } else if (g_.kind[t] == TaskKind::kCall) {
      events_.put(R"(, "correlation": {})", t + 1);
    }
  }

  void flow(std::string_view cat, std::string_view label, std::uint32_t p, std::uint32_t from, std::uint32_t to) {
    const Shown &tail = shown_[p][from], &head = shown_[p][to];
    // What a wait waits for ends it.
    const bool into_wait = g_.kind[to] == TaskKind::kWait && head.duration > 0;
    events_.arrow(cat, label, {p, track(p, kFirstLane + g_.lane[from]), tail.start},
                  {p, track(p, kFirstLane + g_.lane[to]), into_wait ? head.start + head.duration - 1 : head.start});
  }

  void path_track() {
    name_track(kSimulated, kPathTrack, "\"critical path\"");
    for (std::size_t i = 0; i < step_.path.size(); ++i) {
      const analysis::PathSegment& s = step_.path[i];
      if (s.wait > 0) {
        begin_slice("wait", fmt::format("\"({})\"", to_string(s.why)), kSimulated, kPathTrack, s.start - s.wait,
                    s.wait);
        out_ += "}}";
      }
      if (s.work == 0) continue;
      begin_slice("critical path", quoted_task_name(s.task), kSimulated, kPathTrack, s.start, s.work);
      events_.put(R"("ft.task": {}, "on": {}, "phase": "{}")", s.task, name(g_.lanes[g_.lane[s.task]].name),
                  to_string(g_.phase[s.task]));
      if (g_.layer[s.task].valid()) events_.put(R"(, "layer": {})", name(g_.layers[g_.layer[s.task].index()].name));
      events_.put(R"(, "cause": "{}"}}}})", to_string(s.why));
    }
  }

  // Arrows where the path changes lanes; along a lane it is the next slice.
  void path_flows() {
    for (std::size_t i = 1; i < step_.path.size(); ++i) {
      const analysis::PathSegment &from = step_.path[i - 1], &to = step_.path[i];
      if (g_.kind[from.task] == TaskKind::kBegin || g_.kind[to.task] == TaskKind::kBegin) continue;
      if (!from.last_copy || !to.last_copy || g_.lane[from.task] == g_.lane[to.task]) continue;
      flow("critical path", to_string(to.why), kSimulated, from.task, to.task);
    }
  }

  const analysis::ReplayedStep& step_;
  const Graph& g_;
  const ExportInput& in_;
  std::string out_;
  ChromeEvents events_{out_};
  std::vector<char> critical_;
  std::vector<Shown> shown_[3];
  std::vector<std::string> names_;
};

std::string write_perfetto(const ExportInput& input) { return Writer(input).run(); }

}  // namespace

Exporter perfetto_exporter() {
  return {"perfetto", "the measured and the simulated timeline, critical path marked", ".json .json.gz",
          "open it in https://ui.perfetto.dev", write_perfetto};
}

}  // namespace foretrace::report
