#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <unordered_map>

#include "analysis/names.hpp"
#include "analysis/summary/parts.hpp"
#include "analysis/trained_parameters.hpp"
#include "foretrace/memory/memory.hpp"
#include "graph/call_roles.hpp"
#include "trace/gpu.hpp"

namespace foretrace::analysis {
namespace {

using trace::EventKind;
using trace::kAbsent;
using trace::Trace;

struct Span {
  std::uint32_t group;
  Ns start, end;
};

/// Time covered by the spans of each group; sorts them.
template <class Visit>
void cover(std::vector<Span>& spans, Visit visit) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.group != b.group ? a.group < b.group : a.start < b.start; });
  for (std::size_t i = 0; i < spans.size();) {
    const std::uint32_t group = spans[i].group;
    Ns covered = 0, reached = INT64_MIN;
    std::uint64_t count = 0;
    for (; i < spans.size() && spans[i].group == group; ++i, ++count) {
      const Ns from = std::max(spans[i].start, reached);
      if (spans[i].end > from) covered += spans[i].end - from;
      reached = std::max(reached, spans[i].end);
    }
    visit(group, covered, count);
  }
}

/// What a step waited for work that is not in the file is no part of it: times behind that move up, if a thread stood in a call
/// meanwhile.
class StepTime {
 public:
  explicit StepTime(const SummaryInput& in) : waited_(in.step.waited), until_(in.step.waited_until) {
    if (waited_ == 0) return;
    for (std::size_t e = 0; e < in.trace.size() && !blocked_; ++e) {
      blocked_ = in.trace.kind(e) == EventKind::kRuntime && in.trace.events.lane[e] == in.step.lane &&
                 in.trace.events.start[e] < until_ && in.trace.end(e) > until_;
    }
  }
  [[nodiscard]] Ns operator()(Ns at) const {
    if (!blocked_ || at <= until_ - waited_) return at;
    return at < until_ ? until_ - waited_ : at - waited_;
  }

 private:
  Ns waited_, until_;
  bool blocked_ = false;
};

void threads(const SummaryInput& in, SummaryReport& report) {
  const Trace& trace = in.trace;
  const StepTime in_step(in);
  std::vector<Span> busy;
  std::map<std::uint32_t, std::uint64_t> events;
  std::map<std::uint32_t, Ns> waiting;
  for (std::size_t e = 0; e < trace.size(); ++e) {
    const Ns start = in_step(std::max(trace.events.start[e], in.step.start));
    const Ns end = in_step(std::min(trace.end(e), in.step.end));
    if (start >= end) continue;
    const EventKind kind = trace.kind(e);
    const bool call = kind == EventKind::kRuntime;
    if (!call && kind != EventKind::kOp && kind != EventKind::kAnnotation && kind != EventKind::kPython) continue;
    const std::uint32_t lane = trace.events.lane[e].value;
    ++events[lane];
    if (call && graph::waits_for_gpu(graph::kind_of_call(trace.name(e)))) waiting[lane] += end - start;
    if (call || kind == EventKind::kOp) busy.push_back({lane, start, end});
  }
  std::map<std::uint32_t, Ns> covered;
  cover(busy, [&](std::uint32_t lane, Ns time, std::uint64_t) { covered[lane] = time; });
  for (const auto& [lane, count] : events) {
    SummaryReport::LaneUse use;
    use.label = trace.lane_label(LaneId{lane});
    use.kind = "thread";
    use.events = count;
    use.busy = covered[lane];
    use.idle = in.step.duration() - use.busy;
    use.waiting = waiting[lane];
    report.lanes.push_back(std::move(use));
  }
  std::stable_sort(report.lanes.begin(), report.lanes.end(),
                   [](const auto& a, const auto& b) { return a.busy > b.busy; });
}

// The event's own arguments before its row: in an exported file rows are tracks, not devices and streams.
std::int64_t device_of(const Trace& trace, std::size_t event) {
  const trace::KernelLaunch* launch = trace.launch(event);
  if (launch != nullptr && launch->device != kAbsent) return launch->device;
  const std::int64_t pid = trace.lanes[trace.events.lane[event].index()].pid_number;
  return pid != kAbsent ? pid : 0;
}

std::string stream_label(const Trace& trace, std::size_t event) {
  const trace::KernelLaunch* launch = trace.launch(event);
  if (launch == nullptr || launch->stream == kAbsent) return trace.lane_label(trace.events.lane[event]);
  return fmt::format("GPU {} stream {}", device_of(trace, event), launch->stream);
}

void gpus(const SummaryInput& in, SummaryReport& report) {
  const Trace& trace = in.trace;
  const Ns length = in.step.duration();
  std::map<std::int64_t, std::map<std::uint32_t, std::size_t>> streams;  // device, lane: its first event
  // One list at a time: a trace of millions of kernels would not fit three times.
  const auto spans_by = [&](auto group) {
    std::vector<Span> spans;
    for (std::size_t e = 0; e < trace.size(); ++e) {
      if (!trace::is_gpu_work(trace.kind(e))) continue;
      const Ns start = std::max(trace.events.start[e], in.step.start), end = std::min(trace.end(e), in.step.end);
      if (start < end) spans.push_back({group(e), start, end});
    }
    return spans;
  };
  std::map<std::uint32_t, std::pair<Ns, std::uint64_t>> lane_cover, device_cover;
  const auto cover_by = [&](auto group, auto visit) {
    std::vector<Span> spans = spans_by(group);
    cover(spans, visit);
  };
  cover_by([](std::size_t) { return 0U; }, [&](std::uint32_t, Ns time, std::uint64_t) { report.gpu_busy = time; });
  cover_by(
      [&](std::size_t e) {
        const std::uint32_t lane = trace.events.lane[e].value;
        streams[device_of(trace, e)].try_emplace(lane, e);
        return lane;
      },
      [&](std::uint32_t lane, Ns time, std::uint64_t n) { lane_cover[lane] = {time, n}; });
  cover_by([&](std::size_t e) { return static_cast<std::uint32_t>(device_of(trace, e)); },
           [&](std::uint32_t device, Ns time, std::uint64_t n) { device_cover[device] = {time, n}; });
  const auto device_busy = [&](std::int64_t device) { return device_cover[static_cast<std::uint32_t>(device)]; };
  std::int64_t busiest = kAbsent;
  for (const auto& [device, lanes] : streams) {
    if (busiest == kAbsent || device_busy(device).first > device_busy(busiest).first) busiest = device;
    const auto [busy, count] = device_busy(device);
    report.lanes.push_back({fmt::format("GPU {}", device), "gpu", count, busy, length - busy, 0});
    std::vector<SummaryReport::LaneUse> uses;
    for (const auto& [lane, event] : lanes) {
      const auto [time, n] = lane_cover[lane];
      uses.push_back({stream_label(trace, event), "stream", n, time, length - time, 0});
    }
    std::stable_sort(uses.begin(), uses.end(), [](const auto& a, const auto& b) { return a.busy > b.busy; });
    report.lanes.insert(report.lanes.end(), uses.begin(), uses.end());
  }
  if (const trace::DeviceProperties* device = trace::properties_of(trace, busiest)) report.device = device->name;
}

/// Device of an allocator event's argument tuple, kAbsent when it is host memory.
class MemoryDevices {
 public:
  explicit MemoryDevices(const Trace& trace) : trace_(trace) {}
  std::int64_t operator[](ArgsId args) {
    const auto [at, added] = known_.try_emplace(args.value, kAbsent);
    // HIP reports itself as CUDA (1); anything but the CPU (0) holds device memory.
    if (added && number(args, "Device Type") > 0) at->second = std::max<std::int64_t>(0, number(args, "Device Id"));
    return at->second;
  }

 private:
  [[nodiscard]] std::int64_t number(ArgsId args, std::string_view key) const {
    const std::string text = trace_.args.find(args, key).value_or("");
    std::int64_t value = kAbsent;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }
  const Trace& trace_;
  std::unordered_map<std::uint32_t, std::int64_t> known_;
};

/// The task a thread was at when it allocated.
void locate(const SummaryInput& in, std::size_t event, SummaryReport::MemoryPeak& peak) {
  if (in.analysis == nullptr || !in.own_events) return;
  const graph::Graph& g = in.analysis->graph;
  for (const graph::GraphLane& lane : g.lanes) {
    if (lane.kind != graph::GraphLaneKind::kCpu || lane.trace_lane != in.trace.events.lane[event]) continue;
    const auto* after = std::upper_bound(g.measured.begin() + lane.begin, g.measured.begin() + lane.end, peak.at);
    if (after == g.measured.begin() + lane.begin) return;
    const auto t = static_cast<std::size_t>(after - g.measured.begin() - 1);
    if (g.op[t].valid()) peak.op = in.trace.name(g.op[t].index());
    if (g.layer[t].valid()) peak.layer = g.strings[g.layers[g.layer[t].index()].name];
    peak.phase = to_string(g.phase[t]);
  }
}

}  // namespace

void summarise_lanes(const SummaryInput& input, SummaryReport& report) {
  threads(input, report);
  gpus(input, report);
}

void summarise_memory(const SummaryInput& input, SummaryReport& report) {
  const Trace& trace = input.trace;
  MemoryDevices devices(trace);
  std::map<std::int64_t, std::size_t> peak_event;
  for (std::size_t e = 0; e < trace.size(); ++e) {
    const Ns at = trace.events.start[e];
    if (at < input.step.start || at >= input.step.end || trace.kind(e) != EventKind::kMemory) continue;
    const trace::MemoryIds* ids = trace.memory(e);
    if (ids == nullptr || ids->total_allocated == kAbsent) continue;
    const std::int64_t device = devices[trace.events.args[e]];
    if (device == kAbsent) continue;
    const auto [best, added] = peak_event.try_emplace(device, e);
    const trace::MemoryIds* old = trace.memory(best->second);
    const bool higher = ids->total_allocated > old->total_allocated;
    const bool earlier = ids->total_allocated == old->total_allocated && at < trace.events.start[best->second];
    if (!added && (higher || earlier)) best->second = e;
  }
  for (const auto& [device, e] : peak_event) {
    const trace::MemoryIds* ids = trace.memory(e);
    SummaryReport::MemoryPeak peak;
    peak.device = device;
    peak.allocated_bytes = ids->total_allocated;
    if (ids->total_reserved != kAbsent) peak.reserved_bytes = ids->total_reserved;
    peak.at = trace.events.start[e] - input.step.start;
    locate(input, e, peak);
    report.memory.push_back(std::move(peak));
  }
  if (report.memory.size() != 1) return;
  std::optional<memory::Curve> curve = memory::curve(trace, input.step);
  if (!curve) return;
  TrainedParameters trained;
  if (input.analysis != nullptr && input.own_events) trained = trained_parameters(trace, input.analysis->graph);
  size_parameters(*curve, trained);
  report.memory.front().replayed_reserved = memory::replayed_reserved(*curve);
  report.memory.front().parts = memory::composition(*curve, report.memory.front().reserved_bytes.value_or(0));
}

}  // namespace foretrace::analysis
