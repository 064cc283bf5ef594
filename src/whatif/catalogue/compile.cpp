#include <algorithm>
#include <unordered_map>

#include "graph/latencies.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/catalogue/layer_regions.hpp"
#include "whatif/catalogue/rows.hpp"

namespace foretrace::whatif {

namespace {

using work::Dtype;
using work::Family;
using work::Work;

// A generated kernel's start is that of any other.
double kernel_start() { return static_cast<double>(graph::usual_latencies().short_kernel); }

// What the compiler writes kernels for. Losses lie outside the model that is compiled, gathers and pools keep theirs.
bool fuses(const Work& w) {
  return w.family == Family::kElementwise || w.family == Family::kCopy || w.family == Family::kReduction ||
         w.family == Family::kLayerNorm || w.family == Family::kBatchNorm || w.family == Family::kSoftmax;
}

bool of_the_loss(const Model& m, const Row& r) {
  const Work& w = m.works[r.work];
  const std::string_view op = w.op.valid() ? m.trace->strings[w.op] : std::string_view();
  return op.find("log_softmax") != std::string_view::npos || op.find("nll_loss") != std::string_view::npos ||
         op.find("cross_entropy") != std::string_view::npos;
}

// Activations a product reads and what it writes for others; weights and their gradients are nobody's in a chain.
double activations_in(const Work& w) {
  const auto* g = std::get_if<work::Gemm>(&w.kind);
  if (g == nullptr) return is_conv(w) ? w.bytes_read : 0;
  if (g->weight_grad) return 0;
  const double batch = static_cast<double>(g->batch);
  const double a = batch * static_cast<double>(g->m) * static_cast<double>(g->k);
  const double b = g->batch > 1 ? batch * static_cast<double>(g->k) * static_cast<double>(g->n) : 0;
  return (a + b) * static_cast<double>(bytes_of(w.dtype));
}
double activations_out(const Work& w) {
  const auto* g = std::get_if<work::Gemm>(&w.kind);
  const bool of_weights = w.family == Family::kConvWeightGrad || (g != nullptr && g->weight_grad);
  return of_weights ? 0 : w.bytes_written;
}

// A kernel the compiler writes for one member of a chain: never slower than the library's, and bound by its bytes. Batch norm's
// sums over all samples stay reductions of their own, which the compiler writes no faster than the library does (ResNet-50
// on an H200: a bound by bytes promises 10 ms of 69, 3 came; data/h200-search).
double member_time(const Model& m, const Row& r) {
  const Work& w = m.works[r.work];
  if (w.family == Family::kBatchNorm) {
    // The framework's own kernels, which bf16 runs, read the images once more than the compiler's or cuDNN's.
    if (w.dtype != Dtype::kBf16) return static_cast<double>(r.time);
    const hardware::Cost cost =
        rescale(static_cast<double>(r.time), w, m.device, with_dtype(w, Dtype::kFp16), m.device);
    return cost.known ? std::min(cost.ns, static_cast<double>(r.time)) : static_cast<double>(r.time);
  }
  const double bound = kernel_start() + w.bytes() / m.device.streaming_gbs();
  return w.bytes() > 0 ? std::min(static_cast<double>(r.time), bound) : static_cast<double>(r.time);
}

struct Chain {
  std::vector<const Row*> members;
  double bytes_around = 0;  ///< written by the products before it and read by those behind it
};

// Runs of rows between products, in program order. Backward and forward are compiled apart, and so is each region: `region`
// by row, kNone for what stays as it is.
std::vector<Chain> find_chains(const Model& m, const std::vector<Row>& rows, const std::vector<std::uint32_t>& region) {
  std::vector<Chain> chains;
  double written = 0;  // by the products since the last chain
  bool open = false;   // the last row belongs to the last chain
  Phase phase = Phase::kOther;
  std::uint32_t last_region = kNone;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& r = rows[i];
    const Work& w = m.works[r.work];
    if (r.phase != Phase::kForward && r.phase != Phase::kBackward) continue;
    if (r.phase != phase) {
      phase = r.phase;
      written = 0;
      open = false;
    }
    if (region[i] != last_region) open = false;
    last_region = region[i];
    if (region[i] != kNone && fuses(w) && !of_the_loss(m, r)) {
      if (!open) chains.push_back({{}, written});
      open = true;
      written = 0;
      chains.back().members.push_back(&r);
    } else if (is_product(w)) {
      // The first behind a chain reads what it wrote; others side by side with it read the same.
      if (open) chains.back().bytes_around += activations_in(w);
      open = false;
      written += activations_out(w);
    } else {
      open = false;
      written = 0;
    }
  }
  return chains;
}

// Of what a chain computes, its result is kept for the product behind it and its largest other tensor for the backward pass,
// which computes the rest again.
void keep_two(Model& m, const std::vector<Chain>& chains) {
  if (!m.memory) return;
  std::unordered_map<std::uint32_t, std::size_t> inside;  // operation -> chain
  for (std::size_t c = 0; c < chains.size(); ++c) {
    for (std::size_t i = 0; i + 1 < chains[c].members.size(); ++i) {
      inside.emplace(m.works[chains[c].members[i]->work].op_event, c);
    }
  }
  std::vector<memory::Block*> kept(chains.size(), nullptr);
  for (memory::Block& b : m.memory->blocks) {
    if (b.kind != memory::Kind::kActivation || b.op == kNone) continue;
    std::uint32_t e = b.op;
    while (e != kNone && !inside.contains(e)) e = m.chains->around(e);
    if (e == kNone) continue;
    memory::Block*& largest = kept[inside.at(e)];
    memory::Block* gone = &b;
    if (largest == nullptr || b.bytes > largest->bytes) std::swap(largest, gone);
    if (gone != nullptr) gone->bytes = 0;
  }
}

void fuse(Model& m, Draft& draft, const Chain& chain, Selection& gone) {
  // One kernel that reads and writes what its largest member does; what the products around the chain exchange with it
  // crosses memory at least once.
  double time = kernel_start() + chain.bytes_around / m.device.streaming_gbs();
  double all = 0;
  const Row* largest = chain.members.front();
  for (const Row* r : chain.members) {
    all += static_cast<double>(r->time);
    time = std::max(time, member_time(m, *r));
    if (r->time > largest->time) largest = r;
  }
  time = std::min(time, all);
  for (const Row* r : chain.members) {
    if (r != largest) gone.insert(gone.end(), r->tasks.begin(), r->tasks.end());
  }
  Work fused = m.works[largest->work];
  fused.become(Family::kElementwise);
  set_row(m, draft, *largest, time, fused, graph::Origin::kModelled);
}

// The forward and the backward pass each become a CUDA graph: one call where every kernel had its own.
void graph_the_passes(Model& m, Draft& draft) {
  constexpr Ns kGraphLaunch = 40'000;
  const Graph& g = m.graph;
  for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
    const Selection cpu = draft.select({.phase = phase, .where = [&](std::uint32_t t) {
                                          return g.kind[t] == TaskKind::kCpu || g.kind[t] == TaskKind::kCall;
                                        }});
    if (cpu.empty()) continue;
    draft.set(cpu, 0);
    draft.set(cpu.front(), kGraphLaunch);
  }
  m.not_modelled.emplace_back("compile:mode=reduce-overhead is not validated against measurements");
}

Status apply_compile(Model& m, Draft& draft, const Parameters& parameters) {
  if (m.device.bandwidth_gbs <= 0) return fail(ErrorCode::kDeclined, "the GPU's memory bandwidth is unknown");
  const Graph& g = m.graph;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (g.kind[t] == TaskKind::kKernel && g.task_name(t).starts_with("triton_") &&
        g.task_name(t).find("_fused_") != std::string_view::npos) {
      return fail(ErrorCode::kDeclined, "the step already runs kernels of torch.compile");
    }
  }
  const std::vector<Row> rows = rows_of(m, draft);
  std::vector<std::uint32_t> region(rows.size(), 0);
  if (const std::vector<std::string> layers = parameters.list("layers"); !layers.empty()) {
    if (parameters.text("mode") != "default") {
      return fail(ErrorCode::kDeclined, "regions are modelled in torch.compile's default mode only");
    }
    const std::shared_ptr<const Dataflow> shared = shared_flow(m);
    const Dataflow& flow = *shared;
    FORETRACE_TRY(const LayerRegions regions, choose_regions(m, flow, layers));
    for (std::size_t i = 0; i < rows.size(); ++i)
      region[i] = regions.of(g, flow, m.works[rows[i].work].op_event, rows[i].tasks.front());
  }
  std::vector<Chain> chains = find_chains(m, rows, region);
  std::erase_if(chains, [](const Chain& chain) { return chain.members.size() < 2; });
  if (chains.empty()) {
    return fail(ErrorCode::kDeclined, "no two element-wise or normalisation operations follow each other");
  }
  keep_two(m, chains);
  Selection gone;
  for (const Chain& chain : chains) fuse(m, draft, chain, gone);
  std::sort(gone.begin(), gone.end());
  // Fewer launches, but guards, wrappers and launches from Python instead: measured on CPU-bound steps, a compiled step's CPU
  // takes what the eager one's does (data/h200-search). `reduce-overhead` and `cuda-graph` are for that.
  draft.remove(gone, Draft::kTaskOnly);
  if (parameters.text("mode") == "reduce-overhead") graph_the_passes(m, draft);
  return {};
}

WhatIf compile_whatif() {
  return {.name = "compile",
          .about = "torch.compile: chains of element-wise operations and normalisations become one kernel each",
          .parameters = {{"mode", "of torch.compile", "default", {"default", "reduce-overhead"}},
                         {"layers",
                          "globs of modules, each compiled by itself, separated by |; the whole model when "
                          "not given"}},
          .assumes =
              "what is compiled compiles without graph breaks; products and convolutions keep their kernels; the "
              "loss and the update stay as they are",
          .source = "Ansel et al. 2024 (PyTorch 2); TVM and Tensor Comprehensions (Daydream's table)",
          .not_modelled = "max-autotune's choice of other kernels for products",
          .needs = {Need::kShapes},
          .changes = Changes::kCompilation,
          .parts = {.memory = Part::kModelled},
          .code = "model = torch.compile(model)",
          .effort = Effort::kLine,
          .stage = Stage::kRuntime,  // it fuses what the other changes leave
          .advise = {"compile"},
          .validated = true,
          .apply = apply_compile};
}

const Registered kRegistered(compile_whatif);

}  // namespace

}  // namespace foretrace::whatif
