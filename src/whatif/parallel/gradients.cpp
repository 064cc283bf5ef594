// Which gradients a step computes, how large they are, and when each is ready.

#include "whatif/parallel/gradients.hpp"

#include <algorithm>
#include <numeric>

#include "foretrace/whatif/parallel.hpp"
#include "graph/gpu_work.hpp"
#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

namespace {

constexpr std::string_view kAccumulate = "torch::autograd::AccumulateGrad";

// Time of the step's begin in the trace, from a runtime call that has both its place in the step and its event.
std::optional<Ns> begin_of(const Model& m) {
  const Graph& g = m.graph;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (g.kind[t] == TaskKind::kCall && g.event[t].valid()) {
      return m.trace->events.start[g.event[t].index()] - g.measured[t];
    }
  }
  return std::nullopt;
}

struct Ready {
  Ns time;
  std::uint32_t lane;  // graph lane
  std::int64_t elements = 0, rows = 0;
};

void read_shape(const trace::Trace& trace, std::size_t event, Ready& out) {
  const trace::OpInputs* inputs = trace.args.inputs(trace.events.args[event]);
  if (inputs == nullptr || !inputs->dims.valid()) return;
  const auto shapes = trace::parse_shapes(trace.strings[inputs->dims]);
  if (shapes.empty()) return;
  constexpr double kLargestElementCount = 1e15;  // a damaged shape must not overflow
  double n = 1;
  for (const std::int64_t d : shapes.front()) n *= static_cast<double>(std::max<std::int64_t>(d, 0));
  if (n > kLargestElementCount) return;
  out.elements = static_cast<std::int64_t>(n);
  if (shapes.front().size() > 1) out.rows = shapes.front().front();
}

// Every accumulation into a parameter inside the step.
std::vector<Ready> accumulations(const Model& m) {
  std::vector<Ready> found;
  const Graph& g = m.graph;
  const std::optional<Ns> begin = begin_of(m);
  if (!begin || m.trace == nullptr) return found;
  std::vector<std::uint32_t> lane_of(m.trace->lanes.size(), kNone);
  for (std::uint32_t l = 0; l < g.lanes.size(); ++l) {
    if (g.lanes[l].kind == graph::GraphLaneKind::kCpu && g.lanes[l].trace_lane.valid()) {
      lane_of[g.lanes[l].trace_lane.index()] = l;
    }
  }
  for (std::size_t e = 0; e < m.trace->size(); ++e) {
    const Ns at = m.trace->events.start[e] - *begin;
    if (at < 0 || at > g.traced || m.trace->name(e) != kAccumulate) continue;
    const LaneId lane = m.trace->events.lane[e];
    if (!lane.valid() || lane_of[lane.index()] == kNone) continue;
    Ready ready{at, lane_of[lane.index()]};
    read_shape(*m.trace, e, ready);
    found.push_back(ready);
  }
  std::stable_sort(found.begin(), found.end(), [](const Ready& a, const Ready& b) { return a.time < b.time; });
  return found;
}

// Tasks of a GPU lane in the order of their launches on one thread: the last one launched at or before a CPU task.
class LaunchOrder {
 public:
  LaunchOrder(const Graph& g, std::uint32_t gpu_lane, std::uint32_t cpu_lane) {
    for (std::uint32_t t = g.lanes[gpu_lane].begin; t < g.lanes[gpu_lane].end; ++t) {
      if (g.launch[t].valid() && g.lane[g.launch[t].index()] == cpu_lane) calls_.emplace_back(g.launch[t].value, t);
    }
    std::sort(calls_.begin(), calls_.end());
  }
  [[nodiscard]] std::uint32_t last_before(std::uint32_t cpu) const {
    const auto at = std::upper_bound(calls_.begin(), calls_.end(), std::pair(cpu, kNone));
    return at == calls_.begin() ? kNone : std::prev(at)->second;
  }

 private:
  std::vector<std::pair<std::uint32_t, std::uint32_t>> calls_;
};

// The last task of a lane that began at or before a time.
std::uint32_t task_at(const Graph& g, std::uint32_t lane, Ns time) {
  const GraphLane& l = g.lanes[lane];
  std::uint32_t lo = l.begin;
  std::uint32_t hi = l.end;
  while (lo < hi) {  // measured begins ascend along a CPU lane
    const std::uint32_t mid = lo + (hi - lo) / 2;
    if (g.measured[mid] <= time) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  return lo == l.begin ? l.begin : lo - 1;
}

void place(const Graph& g, Gradients& out, std::uint32_t cpu_lane, const std::vector<Ready>& ready) {
  const LaunchOrder main(g, out.stream, cpu_lane);
  std::vector<LaunchOrder> sides;
  for (std::uint32_t l = 0; l < g.lanes.size(); ++l) {
    if (g.lanes[l].kind == graph::GraphLaneKind::kGpu && l != out.stream) sides.emplace_back(g, l, cpu_lane);
  }
  for (const Ready& r : ready) {
    Gradient gradient;
    gradient.elements = r.elements;
    gradient.rows = r.rows;
    gradient.cpu = task_at(g, cpu_lane, r.time);
    gradient.gpu = main.last_before(gradient.cpu);
    // Work on other streams launched since then joins the main stream before the gradient is read.
    for (const LaunchOrder& side : sides) {
      const std::uint32_t t = side.last_before(gradient.cpu);
      if (t != kNone && (gradient.gpu == kNone || g.launch[t].value > g.launch[gradient.gpu].value)) {
        gradient.side.push_back(t);
      }
    }
    out.list.push_back(std::move(gradient));
  }
}

bool was_changed(const Model& m, Changes what) {
  return std::any_of(m.applied.begin(), m.applied.end(), [&](const Model::Applied& a) { return a.changes == what; });
}

// The kernel behind which a gradient is there, in every run of it that earlier changes made.
class Runs {
 public:
  Runs(const Model& m, std::uint32_t stream) : m_(m), tasks_(m.works.size()) {
    const GraphLane& lane = m.graph.lanes[stream];
    for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
      if (const std::uint32_t row = m.works.row_of(t); row != kNone && m.graph.phase[t] == Phase::kBackward)
        tasks_[row].push_back(t);
    }
  }

  [[nodiscard]] std::vector<std::uint32_t> of(std::uint32_t task) const {
    const std::uint32_t row = task == kNone ? kNone : m_.works.row_of(task);
    if (row == kNone || tasks_[row].empty()) return {task};
    const std::vector<std::uint32_t>& all = tasks_[row];
    const std::size_t each = std::max<std::size_t>(1, m_.works[row].kernels);
    std::vector<std::uint32_t> out;
    const auto at = static_cast<std::size_t>(std::find(all.begin(), all.end(), task) - all.begin());
    for (std::size_t i = at % each; i < all.size(); i += each) out.push_back(all[i]);
    return out.empty() ? std::vector<std::uint32_t>{task} : out;
  }

 private:
  const Model& m_;
  std::vector<std::vector<std::uint32_t>> tasks_;  // of the main stream, by row of works
};

// The same gradient where its kernel runs again.
Gradient at_copy(const Graph& g, const Gradient& gradient, std::uint32_t task) {
  if (task == gradient.gpu || !g.launch[task].valid() || !g.launch[gradient.gpu].valid()) return gradient;
  Gradient copy = gradient;
  const std::uint32_t call = g.launch[task].value;
  const std::uint32_t was = g.launch[gradient.gpu].value;
  const std::uint32_t behind = gradient.cpu > was && g.lane[gradient.cpu] == g.lane[was] ? gradient.cpu - was : 0;
  copy.gpu = task;
  copy.cpu = std::min(call + behind, g.lanes[g.lane[call]].end - 1);
  copy.side.clear();
  return copy;
}

// Blocks that a change repeated have gradients of their own; where it repeated the whole pass, the last one completes them.
void include_copies(const Model& m, Gradients& out) {
  const bool deeper = was_changed(m, Changes::kDepth);
  const bool passes = was_changed(m, Changes::kAccumulation);
  if (!deeper && !passes) return;
  const Runs runs(m, out.stream);
  std::vector<std::vector<std::uint32_t>> of;
  std::size_t fewest = SIZE_MAX;
  for (const Gradient& gradient : out.list) {
    of.push_back(runs.of(gradient.gpu));
    fewest = std::min(fewest, of.back().size());
  }
  out.passes = passes ? fewest : 1;
  std::vector<Gradient> list;
  for (std::size_t i = 0; i < out.list.size(); ++i) {
    const std::size_t copies = deeper ? std::max<std::size_t>(1, of[i].size() / out.passes) : 1;
    for (std::size_t k = of[i].size() - std::min(copies, of[i].size()); k < of[i].size(); ++k) {
      list.push_back(of[i][k] == kNone ? out.list[i] : at_copy(m.graph, out.list[i], of[i][k]));
    }
  }
  std::stable_sort(list.begin(), list.end(), [](const Gradient& a, const Gradient& b) { return a.cpu < b.cpu; });
  out.list = std::move(list);
}

// GPUs that divide a replica have a part of its gradients each; how much in all is known, of single ones it is taken to be equal.
void divide_among_gpus(const Model& m, Gradients& out) {
  double all = 0;
  for (const Gradient& g : out.list) all += static_cast<double>(g.elements);
  if (!was_changed(m, Changes::kWorkers) || all <= 0 || m.parameter_elements <= 0) return;
  const double share = std::min(1.0, static_cast<double>(m.parameter_elements) / all);
  for (Gradient& g : out.list)
    g.elements = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(g.elements) * share));
}

// Parameters in the order of their layers in the forward pass. Where no layer is known: behind that of the gradient which is ready next.
void place_parameters(const Graph& g, Gradients& out) {
  const auto named = [&](std::uint32_t t) {  // a module; not what stands for one, by operation and shape
    return g.layer[t].valid() && !g.layers[g.layer[t].index()].synthetic;
  };
  std::vector<std::uint32_t> place(g.layers.size(), kNone);
  std::uint32_t next = 0;
  std::vector<std::pair<Ns, std::uint32_t>> forward;  // by time, whatever the stream
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t]) && g.phase[t] == Phase::kForward && named(t)) {
      forward.emplace_back(g.measured[t], t);
    }
  }
  std::sort(forward.begin(), forward.end());
  for (const auto& [at, t] : forward) {
    std::uint32_t& mine = place[g.layer[t].index()];
    if (mine == kNone) mine = next++;
  }
  std::uint32_t before = 0;
  for (std::size_t i = out.list.size(); i-- > 0;) {
    Gradient& gradient = out.list[i];
    const bool known = gradient.gpu != kNone && named(gradient.gpu);
    if (known && place[g.layer[gradient.gpu].index()] != kNone) before = place[g.layer[gradient.gpu].index()];
    gradient.parameter = before;
  }
}

}  // namespace

Result<Gradients> find_gradients(const Model& m) {
  const Graph& g = m.graph;
  Gradients out;
  out.bytes_per_element = m.parameter_element_bytes;
  if (std::none_of(g.kind.begin(), g.kind.end(), graph::is_gpu)) {
    return fail(ErrorCode::kDeclined, std::string(graph::kNoGpuWork));
  }
  out.stream = main_stream(g);
  std::vector<Ready> ready = accumulations(m);
  std::uint32_t cpu_lane = kNone;
  std::vector<std::uint32_t> backward;  // tasks, where nothing else shows when a gradient is ready
  if (!ready.empty()) {
    cpu_lane = ready.front().lane;
    std::erase_if(ready, [&](const Ready& r) { return r.lane != cpu_lane; });
    const bool shapes = std::all_of(ready.begin(), ready.end(), [](const Ready& r) { return r.elements > 0; });
    if (!shapes) {
      if (m.parameter_elements == 0) {
        return fail(ErrorCode::kDeclined, "the size of the parameters is unknown: the trace has no shapes",
                    "record with record_shapes=True");
      }
      for (Ready& r : ready) {
        r.elements = std::max<std::int64_t>(1, m.parameter_elements / static_cast<std::int64_t>(ready.size()));
      }
      out.guessed = "the sizes of single gradients: the trace has no shapes, all are taken to be equal";
    }
  } else {
    // No accumulations in the trace (no CPU operations, another framework): spread over backward.
    std::vector<std::uint32_t> calls;
    for (std::uint32_t t = 0; t < g.size(); ++t) {
      if (graph::is_gpu(g.kind[t]) && g.phase[t] == Phase::kBackward && g.lane[t] == out.stream &&
          g.launch[t].valid()) {
        calls.push_back(g.launch[t].value);
        backward.push_back(t);
      }
    }
    if (calls.empty()) return fail(ErrorCode::kDeclined, "the step shows no backward pass");
    if (m.parameter_elements == 0) {
      return fail(ErrorCode::kDeclined,
                  "the size of the parameters is unknown: the trace shows neither gradients nor the "
                  "shapes of the update",
                  "record with record_shapes=True");
    }
    cpu_lane = g.lane[calls.front()];
    std::erase_if(calls, [&](std::uint32_t t) { return g.lane[t] != cpu_lane; });
    std::sort(calls.begin(), calls.end());
    const std::size_t parts =
        std::min<std::size_t>(calls.size(), static_cast<std::size_t>(std::max<std::int64_t>(1, m.parameter_tensors)));
    for (std::size_t i = 0; i < parts; ++i) {
      const std::uint32_t call = calls[(i + 1) * calls.size() / parts - 1];
      ready.push_back({g.measured[call], cpu_lane,
                       std::max<std::int64_t>(1, m.parameter_elements / static_cast<std::int64_t>(parts)), 0});
    }
    out.guessed = "when each gradient is ready: the trace does not show them, they are spread evenly over backward";
  }
  place(g, out, cpu_lane, ready);
  // One launch for the whole pass (a CUDA graph): when a gradient is ready, the GPU's tasks tell.
  const bool one_launch = !backward.empty() && std::all_of(backward.begin(), backward.end(), [&](std::uint32_t t) {
    return g.launch[t].valid() && g.launch[t] == g.launch[backward.front()];
  });
  for (std::size_t i = 0; one_launch && i < out.list.size(); ++i) {
    out.list[i].gpu = backward[(i + 1) * backward.size() / out.list.size() - 1];
    out.list[i].side.clear();
  }
  if (!one_launch) include_copies(m, out);
  divide_among_gpus(m, out);
  place_parameters(g, out);
  for (const Gradient& gradient : out.list) out.elements += gradient.elements;

  out.backward_cpu = out.list.back().cpu;
  for (std::uint32_t t = out.backward_cpu; t < g.lanes[cpu_lane].end; ++t) {
    if (g.phase[t] == Phase::kBackward && g.kind[t] != TaskKind::kWait) out.backward_cpu = t;
  }
  out.backward_gpu = LaunchOrder(g, out.stream, cpu_lane).last_before(out.backward_cpu);
  if (out.backward_gpu == kNone) return fail(ErrorCode::kDeclined, "backward put no work on the main stream");
  // A stream may run work in another order than it was launched in: backward is over when the last gradient is there, too.
  const auto include = [&](std::uint32_t task) {
    if (task != kNone && g.lane[task] == g.lane[out.backward_gpu]) out.backward_gpu = std::max(out.backward_gpu, task);
  };
  for (const Gradient& gradient : out.list) {
    include(gradient.gpu);
    std::for_each(gradient.side.begin(), gradient.side.end(), include);
  }
  for (Gradient& gradient : out.list) {
    if (gradient.gpu == kNone) gradient.gpu = g.lanes[out.stream].begin;
  }
  return out;
}

BucketPlan pytorch_buckets(const Gradients& gradients, std::int64_t cap_bytes, std::int64_t first_bytes,
                           BucketOrder order) {
  std::vector<std::uint32_t> in_order(gradients.list.size());
  std::iota(in_order.begin(), in_order.end(), 0U);
  if (order != BucketOrder::kReady) {
    // Of one layer's the last ready is taken for the first parameter: backward goes through them from the last one.
    std::reverse(in_order.begin(), in_order.end());
    std::stable_sort(in_order.begin(), in_order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return gradients.list[a].parameter < gradients.list[b].parameter;
    });
    if (order == BucketOrder::kReverse) std::reverse(in_order.begin(), in_order.end());
  }
  BucketPlan plan;
  Bucket open;
  for (const std::uint32_t i : in_order) {
    open.gradients.push_back(i);
    open.bytes += gradients.bytes(i);
    if (open.bytes >= (plan.empty() ? first_bytes : cap_bytes)) {
      plan.push_back(std::move(open));
      open = {};
    }
  }
  if (!open.gradients.empty()) plan.push_back(std::move(open));
  return plan;
}

}  // namespace foretrace::whatif
