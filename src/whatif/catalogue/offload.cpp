
#include <algorithm>

#include "hardware/cost.hpp"
#include "trace/latencies.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/dataflow/saved_tensors.hpp"
#include "whatif/model/script.hpp"
#include "whatif/model/step_facts.hpp"

namespace foretrace::whatif {
namespace {

constexpr std::size_t kPrefetchAhead = 4;  // tensors being copied back before they are needed

struct Copier {
  Model& m;
  Draft& draft;

  [[nodiscard]] Ns cost(std::int64_t bytes) const {
    return static_cast<Ns>(predict(work::memory_work(bytes, true), m.device).ns);
  }
  // The hook that packs a tensor or unpacks it, called from C++; memory for it, pinned and used again; the copy's call.
  [[nodiscard]] Ns call(Phase phase) const { return m.cpu_time(m.host.eager.hooked_copy_us, phase); }
  std::uint32_t work(std::int64_t bytes) { return m.works.add(work::memory_work(bytes, true)); }
  Place insert(const SavedTensor& s, const Place& at, Phase phase) {
    return draft.insert({.name = phase == Phase::kForward ? "copy to host" : "copy from host",
                         .cost = cost(s.bytes),
                         .phase = phase,
                         .layer = m.graph.layer[s.forward],
                         .kind = TaskKind::kMemcpy,
                         .after = at,
                         .cpu_cost = call(phase),
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
    c.draft.insert_cpu(c.m.graph.launch[s.forward].value, "offload", c.call(Phase::kForward), Phase::kForward);
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
    c.draft.insert_cpu(g.launch[s.backward].value, "prefetch", c.call(Phase::kBackward), Phase::kBackward);
  }
}

// As torch's save_on_cpu does it: the forward pass waits for each copy, the backward pass queues them where they are needed.
void copy_in_order(Model& m, Draft& draft, const std::vector<SavedTensor>& saved) {
  Copier c{m, draft};
  for (const SavedTensor& s : saved) {
    Place out = s.computed ? place_behind(m.graph, s.forward) : place_before(m.graph, s.forward);
    const Place back = place_before(m.graph, s.backward);
    if (!out.known() || !back.known()) continue;
    if (!s.contiguous) {  // a transposed view is written out first
      out = draft.insert({.name = "contiguous copy",
                          .cost = static_cast<Ns>(predict(work::memory_work(s.bytes), m.device).ns),
                          .phase = Phase::kForward,
                          .after = out,
                          .cpu_cost = m.cpu_time(m.host.eager.op_us, Phase::kForward)});
    }
    const Place there = c.insert(s, out, Phase::kForward);
    const std::uint32_t wait = draft.insert_wait(there.cpu, "wait for the copy");
    draft.depend(there.gpu, wait, m.latencies->sync_return, DependencyKind::kSync);
    c.insert(s, back, Phase::kBackward);
  }
}

// As vDNN does it: copies on streams of their own. The forward pass runs at most one operation ahead of them, so that the memory
// is free in time, and they come back a few tensors before they are needed.
void copy_on_side_streams(Model& m, Draft& draft, const std::vector<SavedTensor>& tensors) {
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

// With a stream of its own only what is worth a transfer goes: feature maps, as vDNN does it.
constexpr std::int64_t kWorthATransfer = 1 << 20;

Status apply_offload(Model& m, Draft& draft, const Parameters& parameters) {
  if (m.device.pcie_gbs <= 0)
    return fail(ErrorCode::kDeclined, "the rate of copies to the host is unknown for this GPU");
  if (std::string why = why_saved_unknown(m); !why.empty()) return fail(ErrorCode::kDeclined, std::move(why));
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
  if (prefetch) {
    copy_on_side_streams(m, draft, saved);
    m.not_modelled.emplace_back(
        "offload:prefetch=1: copies and kernels that slow each other down; the two measured steps did not delay their "
        "copies to save memory (-3 % and +15 %)");
  } else {
    copy_in_order(m, draft, saved);
  }
  release_saved(m, saved, 0);
  return {};
}

void write_code(const ScriptPart& p, ScriptPlaces& to) {
  if (p.parameters.text("prefetch") == "1") {
    to.contexts.push_back("with offloaded_on_side_streams(model):" + p.gain);
  } else {
    to.contexts.push_back("with torch.autograd.graph.save_on_cpu(pin_memory=tensors_of(inputs)[0].is_cuda):" + p.gain);
  }
}

const Registered kRegistered(
    {.name = "offload",
     .about = "tensors saved for the backward pass are kept in host memory meanwhile",
     .parameters = {{"prefetch",
                     "1: copies overlap the computation and come back early (vDNN); 0: in its stream, as "
                     "save_on_cpu does it",
                     "0",
                     {"0", "1"}}},
     .assumes = "pinned host memory, used again from step to step; every saved tensor goes (prefetch=1: activations "
                "of a megabyte and more)",
     .source = "Rhu et al. 2016 (vDNN); torch.autograd.graph.save_on_cpu; Daydream section 5",
     .not_modelled = "tensors of operations whose derivative is not in the table (custom autograd functions)",
     .needs = {Need::kShapes, Need::kBackward},
     .changes = Changes::kPlacement,
     .parts = {.memory = Part::kModelled},
     .fits = Fits::kTraining,
     .code = "with torch.autograd.graph.save_on_cpu(pin_memory=True): loss = loss_fn(model(x), y)",
     .effort = Effort::kLine,
     .stage = Stage::kMemory,
     .advise = {"offload"},
     .validated = true,
     .apply = apply_offload,
     .already = if_step_has(&StepFacts::offloads, "the step already keeps activations in the host's memory"),
     .whole_program = "which tensors a compiled program keeps is not in its trace",
     .write_code = write_code,
     .explains = {{Difference::kMoreHostCopies}}});

}  // namespace
}  // namespace foretrace::whatif
