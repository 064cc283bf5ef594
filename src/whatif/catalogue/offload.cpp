#include <algorithm>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/catalogue/saved_tensors.hpp"

namespace foretrace::whatif {

namespace {

// Reading a blocking copy's end takes this much longer than the copy: 7 to 10 µs between blocking and queued copies of 0.25
// to 16 MB on an H200 host.
constexpr Ns kSyncReturn = 8'000;
// With a stream of its own only what is worth a transfer goes: feature maps, as vDNN does it.
constexpr std::int64_t kWorthATransfer = 1 << 20;
constexpr std::size_t kPrefetchAhead = 4;  // tensors on their way back before they are needed

struct Copier {
  Model& m;
  Draft& draft;

  [[nodiscard]] Ns cost(std::int64_t bytes) const {
    return static_cast<Ns>(predict(hardware::memory_work(bytes, true), m.device).ns);
  }
  [[nodiscard]] Ns call(bool forward) const {
    return m.launches.cpu_per_launch[static_cast<std::size_t>(forward ? CpuPhase::kForward : CpuPhase::kBackward)];
  }
  std::uint32_t work(std::int64_t bytes) {
    m.works.push_back(hardware::memory_work(bytes, true));
    return static_cast<std::uint32_t>(m.works.size() - 1);
  }
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

// As save_on_cpu does it: the forward pass waits for each copy, the backward pass queues them where they are needed.
void offload_in_order(Copier& c, const std::vector<SavedTensor>& saved) {
  for (const SavedTensor& s : saved) {
    Place out(c.m, s.forward, s.computed);
    if (!s.in_order) {  // a transposed view is written out first
      hardware::Work tidy = hardware::memory_work(s.bytes);
      out.gpu = c.draft.insert({.name = "contiguous copy",
                                .cost = static_cast<Ns>(predict(tidy, c.m.device).ns),
                                .phase = Phase::kForward,
                                .after_gpu = out.gpu,
                                .after_cpu = out.cpu,
                                .cpu_cost = c.call(true)});
      out.cpu = out.gpu - 1;
    }
    const std::uint32_t there = c.insert(s, out, true);
    const std::uint32_t wait = c.draft.insert_wait(there - 1, "wait for the copy");
    c.draft.depend(there, wait, kSyncReturn, DependencyKind::kSync);
    c.insert(s, Place(c.m, s.backward, false), false);
  }
}

// As vDNN does it: copies on streams of their own; the forward pass runs at most one operation ahead of them, so that the
// memory is free in time, and they come back a few tensors before they are needed.
void offload_beside(Copier& c, const std::vector<SavedTensor>& saved) {
  const std::uint32_t out = c.draft.add_lane(graph::GraphLaneKind::kGpu, "copies to the host", 0);
  const std::uint32_t back = c.draft.add_lane(graph::GraphLaneKind::kGpu, "copies from the host", 0);
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
  std::vector<std::size_t> order(saved.size());  // of need
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const Graph& g = c.m.graph;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return g.measured[g.launch[saved[a].backward].index()] < g.measured[g.launch[saved[b].backward].index()];
  });
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

Status apply_offload(Model& m, Draft& draft, const Parameters& parameters) {
  if (m.device.pcie_gbs <= 0)
    return fail(ErrorCode::kDeclined, "the rate of copies to the host is unknown for this GPU");
  if (std::string why = stale_shapes(m); !why.empty()) return fail(ErrorCode::kDeclined, std::move(why));
  std::vector<SavedTensor> saved = saved_tensors(m, draft);
  const bool prefetch = parameters.text("prefetch") == "1";
  if (prefetch) {
    std::erase_if(saved, [](const SavedTensor& s) { return s.parameter || s.bytes < kWorthATransfer; });
  }
  if (saved.empty()) {
    return fail(ErrorCode::kDeclined,
                "no tensor is known to be kept for the backward pass: the trace needs shapes and "
                "sequence numbers of a training step");
  }
  Copier copier{m, draft};
  if (prefetch) {
    offload_beside(copier, saved);
    m.not_modelled.push_back(
        "offload:prefetch=1: copies and kernels that slow each other down; the two steps measured did not hold their "
        "copies back for memory's sake (-3 % and +15 %)");
  } else {
    offload_in_order(copier, saved);
  }
  release_saved(m, saved, 0);
  return {};
}

}  // namespace

WhatIf offload_whatif() {
  return {.name = "offload",
          .about = "tensors kept for the backward pass wait in the host's memory",
          .parameters = {{"prefetch",
                          "1: copies run beside the computation and come back early (vDNN); 0: in its stream, as "
                          "save_on_cpu does it",
                          "0",
                          {"0", "1"}}},
          .assumes =
              "pinned host memory, used again from step to step; every saved tensor goes (prefetch=1: activations "
              "of a megabyte and more)",
          .source = "Rhu et al. 2016 (vDNN); torch.autograd.graph.save_on_cpu; Daydream section 5",
          .not_modelled = "tensors of operations whose derivative is not in the table (custom autograd functions)",
          .needs = "shapes",
          .code = "with torch.autograd.graph.save_on_cpu(pin_memory=True): loss = loss_fn(model(x), y)",
          .effort = Effort::kLine,
          .stage = Stage::kMemory,
          .advise = {"offload"},
          .validated = true,
          .apply = apply_offload};
}

}  // namespace foretrace::whatif
