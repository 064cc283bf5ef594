#include "graph/trace_index.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "trace/communication.hpp"
#include "trace/gpu.hpp"

namespace foretrace::graph {

using trace::EventKind;

namespace {

bool starts_before(const GpuWork& a, const GpuWork& b) {
  if (a.begin != b.begin) return a.begin < b.begin;
  return a.lane != b.lane ? a.lane < b.lane : a.event < b.event;
}

// Waves of blocks a launch takes.
class Waves {
 public:
  explicit Waves(const trace::Trace& trace) : trace_(trace) {}

  float of(const trace::KernelLaunch* launch) {
    if (launch == nullptr || launch->occupancy_pct < 0) return 0;
    const double blocks = blocks_per_sm(*launch);
    if (blocks < 0) return 0;
    // Occupancy is given in percent of the warps an SM holds; from it, the blocks resident at once.
    constexpr double kWarp = 32;  // threads, by definition of CUDA
    const double threads = static_cast<double>(launch->block[0] * launch->block[1] * launch->block[2]);
    const double warps = std::max(1.0, std::ceil(threads / kWarp));
    const double of_sm = static_cast<double>(threads_of(launch->device)) / kWarp;
    const double resident = std::max(1.0, std::round(of_sm * launch->occupancy_pct / 100 / warps));
    return static_cast<float>(blocks / resident);
  }

 private:
  // XLA's profiles give the grid alone.
  double blocks_per_sm(const trace::KernelLaunch& launch) {
    if (launch.blocks_per_sm >= 0) return launch.blocks_per_sm;
    const double blocks =
        static_cast<double>(launch.grid[0]) * static_cast<double>(launch.grid[1]) * static_cast<double>(launch.grid[2]);
    const trace::DeviceProperties* gpu = trace::properties_of(trace_, launch.device);
    return blocks > 0 && gpu != nullptr && gpu->sm_count > 0 ? blocks / static_cast<double>(gpu->sm_count) : -1;
  }

  std::int64_t threads_of(std::int64_t device) {
    const auto [known, inserted] = threads_.try_emplace(device);
    if (inserted) known->second = trace::threads_per_sm(trace::properties_of(trace_, device));
    return known->second;
  }

  const trace::Trace& trace_;
  std::unordered_map<std::int64_t, std::int64_t> threads_;  // by GPU
};

}  // namespace

TraceIndex::TraceIndex(const trace::Trace& t, Ns centre) : trace(t), centre_(centre) {
  collect();
  link();
  order_streams();
  find_blocked_calls();
}

void TraceIndex::collect() {
  cpu.resize(trace.lanes.size());
  has_ops.assign(trace.lanes.size(), 0);
  std::unordered_map<std::uint32_t, CallKind> kinds;  // by name: calls have few
  std::vector<std::int8_t> collective(trace.strings.size(), -1);
  Waves waves(trace);
  // Rows of this table are large: growing it would hold them twice.
  std::size_t gpu_rows = 0;
  for (std::size_t e = 0; e < trace.size(); ++e) gpu_rows += trace::is_gpu_work(trace.kind(e)) ? 1 : 0;
  work.reserve(gpu_rows);
  for (std::size_t e = 0; e < trace.size(); ++e) {
    if (trace.events.ph[e] != 'X') continue;
    const EventKind kind = trace.kind(e);
    const std::uint32_t lane = trace.events.lane[e].value;
    const auto id = static_cast<std::uint32_t>(e);
    const Ns begin = trace.events.start[e];
    if (far(begin) || far(trace.end(e))) continue;
    const std::uint32_t name = trace.events.name[e].value;
    switch (kind) {
      case EventKind::kRuntime: {
        const auto [known, inserted] = kinds.try_emplace(name);
        if (inserted) known->second = kind_of_call(trace.name(e));
        Call call{id, lane, begin, trace.end(e)};
        call.kind = known->second;
        call.role = call.kind.role;
        calls.push_back(call);
        cpu[lane].push_back(id);
        break;
      }
      case EventKind::kOp:
        has_ops[lane] = 1;
        [[fallthrough]];
      case EventKind::kAnnotation:
      case EventKind::kPython:
        cpu[lane].push_back(id);
        break;
      case EventKind::kKernel:
      case EventKind::kMemcpy:
      case EventKind::kMemset: {
        GpuWork w{id, lane, begin, trace.end(e)};
        if (kind == EventKind::kKernel) {
          if (collective[name] < 0) collective[name] = trace::is_communication_kernel(trace.name(e)) ? 1 : 0;
          w.collective = collective[name] != 0;
          w.waves = waves.of(trace.launch(e));
        }
        work.push_back(w);
        break;
      }
      case EventKind::kOverhead:
        if (trace.name(e) == "Command Buffer Full") queue_full_.push_back({begin, trace.end(e)});
        break;
      default:
        break;
    }
  }
  for (auto& lane : cpu) {
    const auto earlier = [&](std::uint32_t a, std::uint32_t b) {
      if (trace.events.start[a] != trace.events.start[b]) return trace.events.start[a] < trace.events.start[b];
      if (trace.events.duration[a] != trace.events.duration[b])
        return trace.events.duration[a] > trace.events.duration[b];
      return a < b;
    };
    if (!std::is_sorted(lane.begin(), lane.end(), earlier)) std::sort(lane.begin(), lane.end(), earlier);
  }
  nest();
  std::sort(calls.begin(), calls.end(),
            [](const Call& a, const Call& b) { return a.begin != b.begin ? a.begin < b.begin : a.event < b.event; });
  std::sort(work.begin(), work.end(), starts_before);
  std::sort(queue_full_.begin(), queue_full_.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
}

void TraceIndex::nest() {
  around.resize(cpu.size());
  std::vector<std::uint32_t> open;
  for (std::size_t lane = 0; lane < cpu.size(); ++lane) {
    const auto& events = cpu[lane];
    around[lane].assign(events.size(), kNone);
    open.clear();
    for (std::uint32_t i = 0; i < events.size(); ++i) {
      while (!open.empty() && trace.end(events[open.back()]) <= trace.events.start[events[i]]) open.pop_back();
      if (!open.empty()) around[lane][i] = open.back();
      open.push_back(i);
    }
  }
}

std::span<const std::uint32_t> TraceIndex::begun_in(std::uint32_t lane, Ns from, Ns to) const {
  const auto starts_earlier = [&](std::uint32_t e, Ns t) { return trace.events.start[e] < t; };
  const auto first = std::lower_bound(cpu[lane].begin(), cpu[lane].end(), from, starts_earlier);
  return {first, std::lower_bound(first, cpu[lane].end(), std::max(from, to), starts_earlier)};
}

std::vector<std::uint32_t> TraceIndex::open_at(std::uint32_t lane, Ns when) const {
  const auto& events = cpu[lane];
  const auto behind = std::lower_bound(events.begin(), events.end(), when,
                                       [&](std::uint32_t e, Ns t) { return trace.events.start[e] < t; });
  std::vector<std::uint32_t> open;
  if (behind == events.begin()) return open;
  for (auto i = static_cast<std::uint32_t>(behind - events.begin() - 1); i != kNone; i = around[lane][i]) {
    if (trace.end(events[i]) > when) open.push_back(events[i]);
  }
  std::reverse(open.begin(), open.end());
  return open;
}

std::uint32_t TraceIndex::call_of(std::uint32_t event) const {
  const Ns begin = trace.events.start[event];
  const auto it = std::lower_bound(calls.begin(), calls.end(), event, [&](const Call& c, std::uint32_t e) {
    return c.begin != begin ? c.begin < begin : c.event < e;
  });
  return it != calls.end() && it->event == event ? static_cast<std::uint32_t>(it - calls.begin()) : kNone;
}

std::uint32_t TraceIndex::stream_lane(std::int64_t device, std::int64_t stream) const {
  if (device == trace::kAbsent) {
    const auto any =
        std::find_if(streams.begin(), streams.end(), [&](const auto& s) { return s.first.second == stream; });
    return any == streams.end() ? kNone : any->second;
  }
  const auto it = streams.find({device, stream});
  return it == streams.end() ? kNone : it->second;
}

// Calls and their GPU work, by correlation id. Ids repeat when several processes share a file: a kernel then belongs to
// the last call with its id that began before it ended.
void TraceIndex::link() {
  struct Entry {
    std::int64_t correlation;
    std::uint32_t call;
  };
  std::vector<Entry> by_id;
  by_id.reserve(calls.size());
  for (std::uint32_t c = 0; c < calls.size(); ++c) {
    const std::int64_t id = trace.events.correlation[calls[c].event];
    if (id != trace::kAbsent) by_id.push_back({id, c});
  }
  std::sort(by_id.begin(), by_id.end(), [](const Entry& a, const Entry& b) {
    return a.correlation != b.correlation ? a.correlation < b.correlation : a.call < b.call;
  });
  const auto find = [&](std::int64_t id, Ns before) -> std::uint32_t {
    if (id == trace::kAbsent) return kNone;
    const auto first = std::lower_bound(by_id.begin(), by_id.end(), id,
                                        [](const Entry& e, std::int64_t v) { return e.correlation < v; });
    if (first == by_id.end() || first->correlation != id) return kNone;
    // Those of one id are in order of their begin.
    const auto behind = std::partition_point(
        first, by_id.end(), [&](const Entry& e) { return e.correlation == id && calls[e.call].begin <= before; });
    return behind == first ? first->call : (behind - 1)->call;
  };
  for (GpuWork& w : work) {
    w.call = find(trace.events.correlation[w.event], w.end);
    if (w.call == kNone) {
      ++orphans;
      continue;
    }
    ++calls[w.call].works;
    // Clocks of CPU and GPU are aligned by the profiler, not always well: nothing starts before it is launched.
    if (w.begin < calls[w.call].begin) {
      ++early;
      w.end += calls[w.call].begin - w.begin;
      w.begin = calls[w.call].begin;
    }
  }
  if (early > 0) std::sort(work.begin(), work.end(), starts_before);
  std::uint32_t at = 0;
  for (Call& c : calls) {
    c.first_work = at;
    at += c.works;
    if (c.works > 0) c.role = CallRole::kLaunch;
    c.graph = c.works > 0 && c.kind.graph;
    c.works = 0;
  }
  work_by_call.resize(at);
  for (std::uint32_t w = 0; w < work.size(); ++w) {
    if (work[w].call == kNone) continue;
    Call& c = calls[work[w].call];
    work_by_call[c.first_work + c.works++] = w;
  }
  for (GpuWork& w : work) w.group = w.call == kNone ? 1 : calls[w.call].works;

  const StringId wait_kind = trace.strings.find("Stream Wait Event");
  for (std::uint32_t e = 0; e < trace.size(); ++e) {
    if (trace.kind(e) != EventKind::kSync) continue;
    const std::uint32_t c = find(trace.events.correlation[e], trace.end(e));
    if (c != kNone) calls[c].sync_row = e;
    has_wait_rows |= trace.events.name[e] == wait_kind;
  }
}

void TraceIndex::order_streams() {
  launch_order.resize(trace.lanes.size());
  std::vector<std::uint32_t> last(trace.lanes.size(), kNone);
  for (std::uint32_t w = 0; w < work.size(); ++w) {
    launch_order[work[w].lane].push_back(w);
    work[w].before = last[work[w].lane];
    last[work[w].lane] = w;
  }
  // A stream runs what it is given in order, so its neighbours tell when work without a call was put there.
  for (auto& stream : launch_order) {
    Ns before = INT64_MIN;
    for (const std::uint32_t w : stream) {
      if (work[w].call != kNone) before = std::max(before, calls[work[w].call].begin);
      work[w].issued = work[w].call != kNone ? calls[work[w].call].begin : before;
    }
    Ns behind = INT64_MAX;
    for (auto w = stream.rbegin(); w != stream.rend(); ++w) {
      work[*w].issued_before = behind;
      if (work[*w].call != kNone) behind = std::min(behind, work[*w].issued);
    }
    std::stable_sort(stream.begin(), stream.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return work[a].issued < work[b].issued; });
    for (std::uint32_t i = 0; i < stream.size(); ++i) work[stream[i]].position = i;
  }
  started_.resize(launch_order.size());
  for (std::size_t lane = 0; lane < launch_order.size(); ++lane) {
    Ns latest = INT64_MIN;
    for (const std::uint32_t w : launch_order[lane]) started_[lane].push_back(latest = std::max(latest, work[w].begin));
  }
  for (const GpuWork& w : work) longest_work = std::max(longest_work, w.end - w.begin);
  for (std::uint32_t l = 0; l < trace.lanes.size(); ++l) {
    const trace::Lane& lane = trace.lanes[l];
    if (lane.kind == trace::LaneKind::kGpuStream) streams[{lane.pid_number, lane.tid_number}] = l;
  }
}

}  // namespace foretrace::graph
