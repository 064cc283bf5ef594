#include "analysis/doctor/facts.hpp"

#include <algorithm>

#include "analysis/names.hpp"
#include "graph/call_roles.hpp"
#include "trace/compiled_op.hpp"

namespace foretrace::analysis {
namespace {

using trace::EventKind;
using trace::kAbsent;
using trace::Trace;

bool has_time(const Trace& trace, std::size_t e, EventKind kind) {
  if (kind == EventKind::kMemory) return true;
  return trace.events.ph[e] == 'X' && kind != EventKind::kSpan && kind != EventKind::kMetadata;
}

void look_at_op(Facts& facts, const Trace& trace, std::size_t e, NameClass name) {
  const trace::OpInputs* inputs = trace.args.inputs(trace.events.args[e]);
  // An operation without tensor inputs has an empty list even when shapes were recorded.
  if (inputs != nullptr && inputs->dims.valid() && !trace.strings[inputs->dims].empty()) ++facts.ops_with_shapes;
  const trace::OpIds* ids = trace.op(e);
  if (ids != nullptr && ids->sequence_number >= 0) ++facts.ops_with_sequence;
  if (name == NameClass::kBackwardNode) ++facts.backward_nodes;
  if (name == NameClass::kOptimizer) ++facts.optimizer_ranges;  // ranges are operations in traces before 2022
}

void look_at_gpu_work(Facts& facts, const Trace& trace, std::size_t e, EventKind kind, NameClass name) {
  if (trace.events.external_id[e] > 0) ++facts.work_with_external_id;
  const trace::KernelLaunch* launch = trace.launch(e);
  const std::int64_t lane_device = trace.lanes[trace.events.lane[e].index()].pid_number;
  const std::int64_t device = launch != nullptr && launch->device != kAbsent ? launch->device : lane_device;
  ++facts.device_work[device == kAbsent ? 0 : device];
  if (trace.events.start[e] % kNsPerUs != 0 || trace.events.duration[e] % kNsPerUs != 0) {
    facts.whole_microseconds = false;
  }
  if (kind != EventKind::kKernel) return;
  if (launch == nullptr) {
    ++facts.kernels_without_geometry;
  } else if (launch->registers_per_thread == kAbsent) {
    ++facts.kernels_without_registers;
  }
  const ArgsId args = trace.events.args[e];
  if (args.valid() && facts.compiled_tuple.size() <= args.index()) facts.compiled_tuple.resize(trace.args.size(), -1);
  if (args.valid()) {
    signed char& compiled = facts.compiled_tuple[args.index()];
    if (compiled < 0) compiled = trace::compiled_op(trace, args) ? 1 : 0;
    facts.compiled_work += compiled > 0 ? 1 : 0;
  }
  if (trace.category_name(e) == "cuda_graph") ++facts.whole_graphs;
  const trace::CollectiveInfo* collective = trace.args.collective(trace.events.args[e]);
  if (name == NameClass::kCommunication || collective != nullptr) {
    ++facts.collectives;
    if (collective == nullptr || (collective->in_elements == kAbsent && collective->out_elements == kAbsent)) {
      ++facts.collectives_without_size;
    }
  }
}

Ns within_steps(const trace::Steps& steps, Ns start, Ns end) {
  const auto& list = steps.steps;
  auto step = std::partition_point(list.begin(), list.end(), [&](const trace::Step& s) { return s.end <= start; });
  Ns sum = 0;
  for (; step != list.end() && step->start < end; ++step) {
    sum += std::min(end, step->end) - std::max(start, step->start);
  }
  return sum;
}

void scan(Facts& facts, const Trace& trace) {
  NameClasses names(trace.strings);
  const StringId flow = trace.strings.find("fwdbwd");
  std::vector<bool> lane_used(trace.lanes.size(), false), lane_works(trace.lanes.size(), false);
  facts.whole_microseconds = true;
  for (std::size_t e = 0; e < trace.size(); ++e) {
    const EventKind kind = trace.kind(e);
    ++facts.kinds[static_cast<std::size_t>(kind)];
    if (!has_time(trace, e, kind)) {
      if (kind == EventKind::kFlowStart && flow.valid() && trace.events.name[e] == flow) ++facts.fwdbwd_flows;
      continue;
    }
    facts.first = std::min(facts.first, trace.events.start[e]);
    facts.last = std::max(facts.last, trace.end(e));
    const std::size_t lane = trace.events.lane[e].index();
    lane_used[lane] = true;
    const NameClass name = names[trace.events.name[e]];
    switch (kind) {
      case EventKind::kOp:
        look_at_op(facts, trace, e, name);
        break;
      case EventKind::kAnnotation:
        if (name == NameClass::kLayer) ++facts.layer_ranges;
        if (name == NameClass::kOptimizer) ++facts.optimizer_ranges;
        break;
      case EventKind::kPython:
        if (name == NameClass::kModule) ++facts.module_frames;
        break;
      case EventKind::kRuntime:
        if (trace.name(e).find("StreamWaitEvent") != std::string_view::npos) ++facts.stream_wait_calls;
        break;
      case EventKind::kKernel:
      case EventKind::kMemcpy:
      case EventKind::kMemset:
        lane_works[lane] = true;
        look_at_gpu_work(facts, trace, e, kind, name);
        break;
      case EventKind::kSync: {
        const trace::SyncIds* ids = trace.sync(e);
        if (trace.name(e) == "Stream Wait Event" && (ids == nullptr || ids->record_correlation < 0)) {
          ++facts.unresolved_waits;
        }
        break;
      }
      case EventKind::kOverhead:
        // A full launch queue is the program's doing, not the profiler's.
        if (trace.name(e) != "Command Buffer Full")
          facts.overhead += within_steps(*facts.steps, trace.events.start[e], trace.end(e));
        break;

      default:
        break;
    }
    if ((kind == EventKind::kOp || kind == EventKind::kRuntime) && trace.lanes[lane].pid_number != kAbsent) {
      facts.processes.insert(trace.lanes[lane].pid_number);
    }
  }
  facts.whole_microseconds = facts.whole_microseconds && facts.gpu_work() > 0;
  for (std::size_t l = 0; l < trace.lanes.size(); ++l) {
    if (lane_works[l]) ++facts.working_streams;
    if (!lane_used[l]) continue;
    switch (trace.lanes[l].kind) {
      case trace::LaneKind::kCpuThread:
        ++facts.cpu_threads;
        break;
      case trace::LaneKind::kGpuStream:
        ++facts.gpu_streams;
        break;
      case trace::LaneKind::kOther:
        ++facts.other_lanes;
        break;
    }
  }
}

struct Tie {
  std::int64_t correlation;
  std::uint32_t event;
};

/// Pairs launches with their work by correlation id.
void tie_launches(Facts& facts, const Trace& trace) {
  std::vector<Tie> calls, work;
  for (std::size_t e = 0; e < trace.size(); ++e) {
    const EventKind kind = trace.kind(e);
    const std::int64_t correlation = trace.events.correlation[e];
    if (trace::is_gpu_work(kind)) {
      if (correlation > 0) {
        work.push_back({correlation, static_cast<std::uint32_t>(e)});
      } else {
        ++facts.orphans;
      }
    } else if (kind == EventKind::kRuntime && correlation > 0) {
      calls.push_back({correlation, static_cast<std::uint32_t>(e)});
    }
  }
  const auto order = [](const Tie& a, const Tie& b) {
    return a.correlation != b.correlation ? a.correlation < b.correlation : a.event < b.event;
  };
  for (std::vector<Tie>* ties : {&calls, &work}) {
    if (!std::is_sorted(ties->begin(), ties->end(), order)) std::sort(ties->begin(), ties->end(), order);
  }
  const auto& steps = facts.steps->steps;
  const auto step_of = [&](Ns time) {
    const auto after =
        std::upper_bound(steps.begin(), steps.end(), time, [](Ns t, const trace::Step& s) { return t < s.start; });
    const auto i = static_cast<std::size_t>(after - steps.begin());
    return i > 0 && time < steps[i - 1].end ? i - 1 : steps.size();
  };
  facts.step_launches.assign(steps.size(), 0);
  facts.step_launches_without_work.assign(steps.size(), 0);
  std::size_t w = 0;
  for (std::size_t c = 0; c < calls.size();) {
    const std::int64_t id = calls[c].correlation;
    std::size_t next = c;
    while (next < calls.size() && calls[next].correlation == id) ++next;
    if (next - c > 1) ++facts.duplicate_correlations;
    for (; w < work.size() && work[w].correlation < id; ++w) ++facts.orphans;
    const std::uint32_t call = calls[c].event;
    const graph::CallKind kind = graph::kind_of_call(trace.name(call));
    bool worked = false;
    for (; w < work.size() && work[w].correlation == id; ++w) {
      worked = true;
      if (kind.graph) ++facts.graph_work;
      const Ns early = trace.events.start[call] - trace.events.start[work[w].event];
      if (early > 0 && next - c == 1) {
        ++facts.before_launch;
        facts.worst_before_launch = std::max(facts.worst_before_launch, early);
      }
    }
    if (kind.launches) {
      const std::size_t step = step_of(trace.events.start[call]);
      if (step < steps.size()) {
        ++facts.step_launches[step];
        if (!worked) ++facts.step_launches_without_work[step];
      }
    }
    c = next;
  }
  facts.orphans += work.size() - w;
}

/// Events that overlap without nesting, lane by lane.
void find_overlaps(Facts& facts, const Trace& trace) {
  const auto nests = [](EventKind k) {
    return k == EventKind::kOp || k == EventKind::kAnnotation || k == EventKind::kRuntime || k == EventKind::kPython;
  };
  std::vector<std::uint32_t> begin(trace.lanes.size() + 1, 0);
  const auto counts = [&](std::size_t e) {
    const EventKind kind = trace.kind(e);
    return trace.events.ph[e] == 'X' && (nests(kind) || trace::is_gpu_work(kind));
  };
  for (std::size_t e = 0; e < trace.size(); ++e) {
    if (counts(e)) ++begin[trace.events.lane[e].index() + 1];
  }
  for (std::size_t l = 1; l < begin.size(); ++l) begin[l] += begin[l - 1];
  std::vector<std::uint32_t> order(begin.back()), fill(begin.begin(), begin.end() - 1);
  for (std::size_t e = 0; e < trace.size(); ++e) {
    if (counts(e)) order[fill[trace.events.lane[e].index()]++] = static_cast<std::uint32_t>(e);
  }
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    const Ns x = trace.events.start[a], y = trace.events.start[b];
    return x != y ? x < y : trace.end(a) > trace.end(b);
  };
  // Times in whole microseconds touch by rounding; that is not an overlap.
  const Ns tolerance = facts.whole_microseconds ? kNsPerUs : 0;
  std::vector<Ns> open;
  for (std::size_t l = 0; l + 1 < begin.size(); ++l) {
    const auto from = order.begin() + begin[l], to = order.begin() + begin[l + 1];
    if (!std::is_sorted(from, to, before)) std::sort(from, to, before);
    open.clear();
    Ns busy_until = INT64_MIN;
    for (auto it = from; it != to; ++it) {
      const Ns start = trace.events.start[*it], end = trace.end(*it);
      Ns overlap = 0;
      if (trace::is_gpu_work(trace.kind(*it))) {
        overlap = busy_until == INT64_MIN ? 0 : std::min(busy_until, end) - start;
        busy_until = std::max(busy_until, end);
        if (overlap > tolerance) ++facts.stream_overlaps;
      } else {
        while (!open.empty() && open.back() <= start) open.pop_back();
        overlap = !open.empty() && end > open.back() ? open.back() - start : 0;
        if (overlap > tolerance) ++facts.thread_overlaps;
        open.push_back(end);
      }
      if (overlap > tolerance) facts.worst_overlap = std::max(facts.worst_overlap, overlap);
    }
  }
}

}  // namespace

Facts gather_facts(const Trace& trace, const trace::Steps& steps) {
  Facts facts;
  facts.trace = &trace;
  facts.steps = &steps;
  scan(facts, trace);
  tie_launches(facts, trace);
  find_overlaps(facts, trace);
  return facts;
}

}  // namespace foretrace::analysis
