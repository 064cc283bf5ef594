#include "whatif/rewrite/host_copies.hpp"

#include <algorithm>

#include "graph/latencies.hpp"
#include "hardware/cost.hpp"

namespace foretrace::whatif {

namespace {

constexpr std::size_t kPrefetchAhead = 4;  // tensors on their way back before they are needed

struct Copier {
  Model& m;
  Draft& draft;

  [[nodiscard]] Ns cost(std::int64_t bytes) const {
    return static_cast<Ns>(predict(work::memory_work(bytes, true), m.device).ns);
  }
  // The hook that packs a tensor or unpacks it, called from C++; memory for it, pinned and used again; the copy's call.
  [[nodiscard]] Ns call(bool forward) const {
    return m.cpu_time(m.host.hooked_copy_us, forward ? host::CpuPhase::kForward : host::CpuPhase::kBackward);
  }
  std::uint32_t work(std::int64_t bytes) { return m.works.add(work::memory_work(bytes, true)); }
  std::uint32_t insert(const SavedTensor& s, const Place& at, bool out) {
    return draft.insert({.name = out ? "copy to host" : "copy from host",
                         .cost = cost(s.bytes),
                         .phase = out ? Phase::kForward : Phase::kBackward,
                         .layer = m.graph.layer[s.forward],
                         .kind = TaskKind::kMemcpy,
                         .after_gpu = at.gpu,
                         .after_cpu = at.cpu,
                         .cpu_cost = call(out),
                         .work = work(s.bytes)});
  }
};

// Places of tasks in an order in which all of them can run.
std::vector<std::uint32_t> ranks_of(const Graph& g) {
  std::vector<std::uint32_t> rank(g.size());
  std::uint32_t next = 0;
  for (const graph::TaskRun& run : g.order) {
    for (std::uint32_t t = run.begin; t < run.end; ++t) rank[t] = next++;
  }
  return rank;
}

// Behind the operation that needs them last; the copies, in the order of `saved`.
std::vector<std::uint32_t> copy_out(Copier& c, const std::vector<SavedTensor>& saved) {
  const std::uint32_t out = c.draft.add_lane(graph::GraphLaneKind::kGpu, "copies to the host", 0);
  std::vector<std::uint32_t> gone;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    const SavedTensor& s = saved[i];
    const std::uint32_t copy = c.draft.append(out, TaskKind::kMemcpy, "copy to host", c.cost(s.bytes), Phase::kForward,
                                              c.m.graph.layer[s.forward]);
    c.draft.set_work(copy, c.work(s.bytes));
    c.draft.depend(s.forward, copy, 0, DependencyKind::kStreamWait, s.computed ? graph::kWhole : 0);
    c.draft.insert_cpu(c.m.graph.launch[s.forward].value, "offload", c.call(true), Phase::kForward);
    if (i + 2 < saved.size() && saved[i + 2].forward != s.forward && saved[i + 2].op != s.op) {
      c.draft.depend(copy, saved[i + 2].forward, 0, DependencyKind::kStreamWait);
    }
    gone.push_back(copy);
  }
  return gone;
}

// In the order in which the backward pass needs them.
void copy_back(Copier& c, const std::vector<SavedTensor>& saved, const std::vector<std::uint32_t>& gone,
               const std::vector<std::uint32_t>& rank) {
  const std::uint32_t back = c.draft.add_lane(graph::GraphLaneKind::kGpu, "copies from the host", 0);
  std::vector<std::size_t> order(saved.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const Graph& g = c.m.graph;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rank[saved[a].backward] < rank[saved[b].backward]; });
  for (std::size_t k = 0; k < order.size(); ++k) {
    const SavedTensor& s = saved[order[k]];
    const std::uint32_t copy = c.draft.append(back, TaskKind::kMemcpy, "copy from host", c.cost(s.bytes),
                                              Phase::kBackward, g.layer[s.forward]);
    c.draft.set_work(copy, c.work(s.bytes));
    c.draft.depend(gone[order[k]], copy, 0, DependencyKind::kStreamWait);
    if (k > kPrefetchAhead) {
      c.draft.depend(saved[order[k - kPrefetchAhead - 1]].backward, copy, 0, DependencyKind::kStreamWait, 0);
    }
    c.draft.depend(copy, s.backward, 0, DependencyKind::kStreamWait);
    c.draft.insert_cpu(g.launch[s.backward].value, "prefetch", c.call(false), Phase::kBackward);
  }
}

}  // namespace

void copy_in_order(Model& m, Draft& draft, const std::vector<SavedTensor>& saved) {
  Copier c{m, draft};
  for (const SavedTensor& s : saved) {
    Place out = place_beside(c.m.graph, s.forward, s.computed);
    const Place back = place_beside(c.m.graph, s.backward, false);
    if (!out.known() || !back.known()) continue;
    if (!s.in_order) {  // a transposed view is written out first
      work::Work tidy = work::memory_work(s.bytes);
      out.gpu = c.draft.insert({.name = "contiguous copy",
                                .cost = static_cast<Ns>(predict(tidy, c.m.device).ns),
                                .phase = Phase::kForward,
                                .after_gpu = out.gpu,
                                .after_cpu = out.cpu,
                                .cpu_cost = c.m.cpu_time(c.m.host.op_us, host::CpuPhase::kForward)});
      out.cpu = out.gpu - 1;
    }
    const std::uint32_t there = c.insert(s, out, true);
    const std::uint32_t wait = c.draft.insert_wait(there - 1, "wait for the copy");
    c.draft.depend(there, wait, graph::usual_latencies().sync_return, DependencyKind::kSync);
    c.insert(s, back, false);
  }
}

void copy_beside(Model& m, Draft& draft, const std::vector<SavedTensor>& tensors) {
  Copier c{m, draft};
  // Copies run in the order in which their tasks can: measured times say little once another change has added tasks.
  const std::vector<std::uint32_t> rank = ranks_of(m.graph);
  std::vector<SavedTensor> saved = tensors;
  std::erase_if(saved, [&](const SavedTensor& s) { return rank[s.forward] >= rank[s.backward]; });
  std::stable_sort(saved.begin(), saved.end(),
                   [&](const SavedTensor& a, const SavedTensor& b) { return rank[a.forward] < rank[b.forward]; });
  const std::vector<std::uint32_t> gone = copy_out(c, saved);
  copy_back(c, saved, gone, rank);
}

}  // namespace foretrace::whatif
