#include "foretrace/report/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <unordered_map>

#include "report/attribution.hpp"
#include "report/names.hpp"

namespace foretrace::report {
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

class Summariser {
 public:
  Summariser(const Trace& trace, const trace::Step& step, SummaryReport& report)
      : trace_(trace), report_(report), work_(attribute(trace, step.start, step.end)) {}

  [[nodiscard]] bool empty() const { return work_.cpu.empty() && work_.gpu.empty(); }

  void run() {
    threads();
    gpus();
    phases();
    layers();
    operations();
    kernels();
    memory();
  }

 private:
  [[nodiscard]] Ns length() const { return work_.end - work_.start; }
  [[nodiscard]] Ns duration(const GpuRow& row) const { return trace_.events.duration[row.event]; }

  void threads() {
    std::vector<Span> busy;
    std::map<std::uint32_t, std::uint64_t> events;
    std::map<std::uint32_t, Ns> waiting;
    for (const CpuRow& row : work_.cpu) {
      ++events[row.lane.value];
      if (row.kind == EventKind::kRuntime && is_sync_call(trace_.name(row.event))) {
        waiting[row.lane.value] += row.end - row.start;
      }
      if (row.kind == EventKind::kOp || row.kind == EventKind::kRuntime) {
        busy.push_back({row.lane.value, row.start, row.end});
      }
    }
    std::map<std::uint32_t, Ns> covered;
    cover(busy, [&](std::uint32_t lane, Ns time, std::uint64_t) { covered[lane] = time; });
    for (const auto& [lane, count] : events) {
      SummaryReport::LaneUse use;
      use.label = trace_.lane_label(LaneId{lane});
      use.kind = "thread";
      use.events = count;
      use.busy = covered[lane];
      use.idle = length() - use.busy;
      use.waiting = waiting[lane];
      report_.lanes.push_back(std::move(use));
    }
    std::stable_sort(report_.lanes.begin(), report_.lanes.end(),
                     [](const auto& a, const auto& b) { return a.busy > b.busy; });
  }

  [[nodiscard]] std::int64_t device_of(std::size_t event) const {
    const std::int64_t pid = trace_.lanes[trace_.events.lane[event].index()].pid_number;
    if (pid != kAbsent) return pid;
    const trace::KernelLaunch* launch = trace_.launch(event);
    return launch != nullptr && launch->device != kAbsent ? launch->device : 0;
  }

  void gpus() {
    std::vector<Span> by_lane, by_device, all;
    std::map<std::int64_t, std::map<std::uint32_t, SummaryReport::LaneUse>> streams;
    for (std::size_t e = 0; e < trace_.size(); ++e) {
      if (!trace::is_gpu_work(trace_.kind(e))) continue;
      const Ns start = std::max(trace_.events.start[e], work_.start), end = std::min(trace_.end(e), work_.end);
      if (start >= end) continue;
      const std::uint32_t lane = trace_.events.lane[e].value;
      const std::int64_t device = device_of(e);
      streams[device][lane];
      by_lane.push_back({lane, start, end});
      by_device.push_back({static_cast<std::uint32_t>(device), start, end});
    }
    all = by_lane;
    for (Span& span : all) span.group = 0;
    cover(all, [&](std::uint32_t, Ns time, std::uint64_t) { report_.gpu_busy = time; });
    std::map<std::uint32_t, std::pair<Ns, std::uint64_t>> lane_cover, device_cover;
    cover(by_lane, [&](std::uint32_t lane, Ns time, std::uint64_t n) { lane_cover[lane] = {time, n}; });
    cover(by_device, [&](std::uint32_t device, Ns time, std::uint64_t n) { device_cover[device] = {time, n}; });
    std::vector<std::int64_t> order;
    for (const auto& [device, uses] : streams) order.push_back(device);
    const auto device_busy = [&](std::int64_t device) { return device_cover[static_cast<std::uint32_t>(device)]; };
    for (const std::int64_t device : order) {
      const auto [busy, count] = device_busy(device);
      report_.lanes.push_back({fmt::format("GPU {}", device), "gpu", count, busy, length() - busy, 0});
      std::vector<SummaryReport::LaneUse> uses;
      for (const auto& [lane, unused] : streams[device]) {
        const auto [time, n] = lane_cover[lane];
        uses.push_back({trace_.lane_label(LaneId{lane}), "stream", n, time, length() - time, 0});
      }
      std::stable_sort(uses.begin(), uses.end(), [](const auto& a, const auto& b) { return a.busy > b.busy; });
      report_.lanes.insert(report_.lanes.end(), uses.begin(), uses.end());
    }
    if (!order.empty()) {
      const std::int64_t busiest = *std::max_element(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return device_busy(a).first < device_busy(b).first;
      });
      for (const trace::DeviceProperties& device : trace_.devices) {
        if (device.id == busiest) report_.device = device.name;
      }
    }
    for (const GpuRow& row : work_.gpu) {
      report_.gpu_time += duration(row);
      ++report_.gpu_events;
      const Ns from = std::max(trace_.events.start[row.event], work_.end);
      report_.gpu_time_after_step += std::max<Ns>(0, trace_.end(row.event) - from);
    }
  }

  void phases() {
    std::vector<SummaryReport::PhaseRow> rows(static_cast<std::size_t>(Phase::kCount));
    for (std::size_t p = 0; p < rows.size(); ++p) rows[p].name = to_string(static_cast<Phase>(p));
    for (const CpuRow& row : work_.cpu) {
      // Around a call of backward() the calling thread only waits for the autograd thread.
      const bool waits = row.kind == EventKind::kAnnotation && row.phase == Phase::kBackward &&
                         classify_name(trace_.name(row.event)) == NameClass::kBackward;
      rows[static_cast<std::size_t>(waits ? Phase::kOther : row.phase)].cpu_time += row.self;
    }
    for (const GpuRow& row : work_.gpu) {
      SummaryReport::PhaseRow& phase = rows[static_cast<std::size_t>(row.phase)];
      phase.gpu_time += duration(row);
      ++phase.gpu_events;
    }
    for (SummaryReport::PhaseRow& row : rows) {
      if (row.gpu_events > 0 || row.cpu_time > 0) report_.phases.push_back(std::move(row));
    }
  }

  void layers() {
    report_.named_layers = work_.layers.size();
    if (work_.layers.empty()) return;
    std::vector<SummaryReport::LayerRow> rows;
    for (const LayerName& layer : work_.layers) rows.push_back({layer.name, layer.type});
    // Work of no layer is listed by phase, so that the column adds up to the whole step.
    const std::size_t first_phase = rows.size();
    for (std::size_t p = 0; p < static_cast<std::size_t>(Phase::kCount); ++p) {
      const bool own_name = static_cast<Phase>(p) != Phase::kForward && static_cast<Phase>(p) != Phase::kBackward;
      rows.push_back({own_name ? fmt::format("({})", to_string(static_cast<Phase>(p)))
                               : fmt::format("({}, no layer)", to_string(static_cast<Phase>(p))),
                      ""});
    }
    const auto row_of = [&](std::uint32_t layer, Phase phase) -> SummaryReport::LayerRow& {
      const bool layered = layer != kNone && (phase == Phase::kForward || phase == Phase::kBackward);
      return rows[layered ? layer : first_phase + static_cast<std::size_t>(phase)];
    };
    for (const CpuRow& row : work_.cpu) row_of(row.layer, row.phase).cpu_time += row.self;
    for (const GpuRow& work : work_.gpu) {
      SummaryReport::LayerRow& row = row_of(work.layer, work.phase);
      Ns& part = work.phase == Phase::kForward    ? row.forward
                 : work.phase == Phase::kBackward ? row.backward
                                                  : row.other;
      part += duration(work);
      ++row.gpu_events;
    }
    std::erase_if(rows, [](const auto& row) { return row.gpu_events == 0 && row.cpu_time == 0; });
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
      return a.gpu_time() != b.gpu_time() ? a.gpu_time() > b.gpu_time() : a.cpu_time > b.cpu_time;
    });
    report_.layers = std::move(rows);
  }

  void operations() {
    std::unordered_map<std::uint32_t, std::size_t> index;
    std::vector<SummaryReport::OpRow> rows;
    const auto row_of = [&](std::uint32_t key, const auto& name) -> SummaryReport::OpRow& {
      const auto [at, fresh] = index.try_emplace(key, rows.size());
      if (fresh) rows.push_back({name()});
      return rows[at->second];
    };
    const auto op_row = [&](std::uint32_t r) -> SummaryReport::OpRow& {
      const std::uint32_t event = work_.cpu[r].event;
      return row_of(trace_.events.name[event].value, [&] { return std::string(trace_.name(event)); });
    };
    // A call outside any operation stands under its own name: "(cudaGraphLaunch)".
    const auto call_row = [&](std::uint32_t call) -> SummaryReport::OpRow& {
      return row_of(trace_.events.name[call].value, [&] { return fmt::format("({})", trace_.name(call)); });
    };
    for (const CpuRow& row : work_.cpu) {
      if (row.op == kNone && row.kind != EventKind::kRuntime) continue;
      SummaryReport::OpRow& op = row.op != kNone ? op_row(row.op) : call_row(row.event);
      op.cpu_time += row.self;
      if (row.kind == EventKind::kOp || row.op == kNone) ++op.calls;
    }
    for (const GpuRow& work : work_.gpu) {
      SummaryReport::OpRow* op = nullptr;
      if (work.launch == kNone) {
        op = &row_of(kNone, [] { return std::string("(launch not recorded)"); });
      } else if (work_.cpu[work.launch].op != kNone) {
        op = &op_row(work_.cpu[work.launch].op);
      } else {
        op = &call_row(work_.cpu[work.launch].event);
      }
      op->gpu_time += duration(work);
      ++op->gpu_events;
    }
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
      return a.gpu_time != b.gpu_time ? a.gpu_time > b.gpu_time : a.cpu_time > b.cpu_time;
    });
    report_.ops = std::move(rows);
  }

  void kernels() {
    std::unordered_map<std::uint32_t, std::size_t> index;
    for (const GpuRow& work : work_.gpu) {
      const auto [at, fresh] = index.try_emplace(trace_.events.name[work.event].value, report_.kernels.size());
      if (fresh) {
        report_.kernels.push_back(
            {std::string(trace_.name(work.event)), std::string(trace::to_string(trace_.kind(work.event)))});
      }
      SummaryReport::KernelRow& row = report_.kernels[at->second];
      ++row.launches;
      row.total += duration(work);
    }
    std::stable_sort(report_.kernels.begin(), report_.kernels.end(),
                     [](const auto& a, const auto& b) { return a.total > b.total; });
  }

  /// Device of an allocator event's argument tuple, kAbsent when it is host memory.
  std::int64_t memory_device(ArgsId args) {
    const auto [at, fresh] = memory_device_.try_emplace(args.value, kAbsent);
    if (fresh) {
      constexpr std::string_view kCuda = "1";
      const auto number = [&](std::string_view key) -> std::int64_t {
        const std::string text = trace_.args.find(args, key).value_or("");
        std::int64_t value = kAbsent;
        std::from_chars(text.data(), text.data() + text.size(), value);
        return value;
      };
      // HIP reports itself as CUDA; anything but the CPU (0) holds device memory.
      if (trace_.args.find(args, "Device Type").value_or("") == kCuda || number("Device Type") > 1) {
        at->second = std::max<std::int64_t>(0, number("Device Id"));
      }
    }
    return at->second;
  }

  void memory() {
    std::map<std::int64_t, std::size_t> peak_event;
    for (std::size_t e = 0; e < trace_.size(); ++e) {
      const Ns at = trace_.events.start[e];
      if (at < work_.start || at >= work_.end || trace_.kind(e) != EventKind::kMemory) continue;
      const trace::MemoryIds* ids = trace_.memory(e);
      if (ids == nullptr || ids->total_allocated == kAbsent) continue;
      const std::int64_t device = memory_device(trace_.events.args[e]);
      if (device == kAbsent) continue;
      const auto [best, fresh] = peak_event.try_emplace(device, e);
      const trace::MemoryIds* old = trace_.memory(best->second);
      const bool higher = ids->total_allocated > old->total_allocated;
      const bool earlier = ids->total_allocated == old->total_allocated && at < trace_.events.start[best->second];
      if (!fresh && (higher || earlier)) best->second = e;
    }
    for (const auto& [device, e] : peak_event) {
      const trace::MemoryIds* ids = trace_.memory(e);
      SummaryReport::MemoryPeak peak;
      peak.device = device;
      peak.allocated_bytes = ids->total_allocated;
      if (ids->total_reserved != kAbsent) peak.reserved_bytes = ids->total_reserved;
      peak.at = trace_.events.start[e] - work_.start;
      const std::uint32_t row = work_.at(trace_.events.lane[e], trace_.events.start[e]);
      if (row != kNone) {
        const CpuRow& cpu = work_.cpu[row];
        if (cpu.op != kNone) peak.op = trace_.name(work_.cpu[cpu.op].event);
        if (cpu.layer != kNone) peak.layer = work_.layers[cpu.layer].name;
        peak.phase = to_string(cpu.phase);
      }
      report_.memory.push_back(std::move(peak));
    }
  }

  const Trace& trace_;
  SummaryReport& report_;
  Attribution work_;
  std::unordered_map<std::uint32_t, std::int64_t> memory_device_;
};

}  // namespace

Result<SummaryReport> summarise(const Trace& trace, const trace::Steps& steps, const SummaryOptions& options) {
  if (steps.steps.empty()) {
    auto failed = fail(ErrorCode::kDeclined, "the trace holds no event with a duration, so there is no step to look at",
                       "`foretrace doctor` shows what the file does hold");
    failed.value().file = trace.path;
    return failed;
  }
  SummaryReport report;
  report.file = trace.path;
  report.format = trace.format;
  if (trace.distributed.rank != kAbsent) report.rank = trace.distributed.rank;
  if (trace.distributed.world_size != kAbsent) report.world_size = trace.distributed.world_size;
  report.step_source = trace::describe(steps.source);
  for (const trace::Step& step : steps.steps) report.steps.push_back({step.name, step.number, step.duration()});
  report.chosen = steps.median();
  if (options.step) {
    FORETRACE_TRY(report.chosen, steps.by_number(*options.step));
    report.chosen_by_user = true;
  }
  const trace::Step& step = steps.steps[report.chosen];
  if (options.samples && step.duration() > 0) {
    report.samples_per_s = *options.samples / (static_cast<double>(step.duration()) / 1e9);
  }
  Summariser summariser(trace, step, report);
  if (summariser.empty()) {
    auto failed = fail(ErrorCode::kDeclined,
                       "the step holds no operations, runtime calls or GPU work: there is nothing to summarise",
                       "`foretrace doctor` shows what the file does hold");
    failed.value().file = trace.path;
    return failed;
  }
  summariser.run();
  return report;
}

}  // namespace foretrace::report
