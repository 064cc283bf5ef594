#include <algorithm>
#include <map>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/catalogue/rows.hpp"

namespace foretrace::whatif {

namespace {

using hardware::Family;
using hardware::Work;

/// One attention of the step: the batched products around a softmax over scores, and everything shaped like the scores.
struct Attention {
  std::vector<const Row*> forward, backward;
  Work first;  ///< queries x keys
};

bool is_batched_product(const Work& w) { return w.family == Family::kGemm && w.batch > 1; }

// Scores are what a batched product writes and a softmax reads: as many elements as batch x queries x keys.
std::int64_t score_elements(const Model& m, const std::vector<Row>& rows) {
  std::map<std::int64_t, int> softmaxes;
  for (const Row& r : rows) {
    if (m.works[r.work].family == Family::kSoftmax && r.phase == Phase::kForward) ++softmaxes[m.works[r.work].elements];
  }
  for (const Row& r : rows) {
    const Work& w = m.works[r.work];
    if (is_batched_product(w) && r.phase == Phase::kForward && softmaxes.contains(w.batch * w.m * w.n))
      return w.batch * w.m * w.n;
  }
  return 0;
}

bool belongs(const Work& w, std::int64_t scores) {
  if (is_batched_product(w))
    return w.batch * w.m * w.n == scores || w.batch * w.m * w.k == scores || w.batch * w.k * w.n == scores;
  const bool shaped = w.elements == scores;
  return shaped && (w.family == Family::kSoftmax || w.family == Family::kElementwise || w.family == Family::kCopy ||
                    w.family == Family::kReduction);
}

std::vector<Attention> find_attentions(const Model& m, const std::vector<Row>& rows, std::int64_t scores) {
  std::vector<Attention> found;
  std::vector<const Row*> backward;
  for (const Row& r : rows) {
    const Work& w = m.works[r.work];
    if (!belongs(w, scores)) continue;
    if (r.phase == Phase::kBackward) {
      backward.push_back(&r);
      continue;
    }
    if (r.phase != Phase::kForward) continue;
    // The product that makes the scores begins an attention; the one that uses them ends it.
    if (is_batched_product(w) && w.batch * w.m * w.n == scores && (found.empty() || found.back().forward.size() > 1)) {
      found.push_back({{}, {}, w});
    }
    if (!found.empty()) found.back().forward.push_back(&r);
  }
  // Backward passes through them in the opposite order, with equally many operations each.
  if (!found.empty() && !backward.empty()) {
    const std::size_t each = (backward.size() + found.size() - 1) / found.size();
    for (std::size_t i = 0; i < backward.size(); ++i)
      found[found.size() - 1 - std::min(i / each, found.size() - 1)].backward.push_back(backward[i]);
  }
  return found;
}

void replace(Model& m, Draft& draft, const std::vector<const Row*>& rows, const Work& attention, Phase phase,
             int kernels) {
  if (rows.empty()) return;
  Selection gone;
  for (const Row* r : rows) gone.insert(gone.end(), r->tasks.begin(), r->tasks.end());
  std::sort(gone.begin(), gone.end());
  const Graph& g = m.graph;
  const std::uint32_t first = rows.front()->tasks.front();
  if (!g.launch[first].valid()) return;
  const std::uint32_t call = g.launch[first].value;
  draft.remove(gone, Draft::kWithLaunch);
  const hardware::Cost cost = predict(attention, m.device);
  m.works.push_back(attention);
  const auto work = static_cast<std::uint32_t>(m.works.size() - 1);
  std::uint32_t gpu = first > g.lanes[g.lane[first]].begin ? first - 1 : first;
  std::uint32_t cpu = call > g.lanes[g.lane[call]].begin ? call - 1 : call;
  const std::size_t p = static_cast<std::size_t>(phase == Phase::kForward ? CpuPhase::kForward : CpuPhase::kBackward);
  for (int i = 0; i < kernels; ++i) {
    gpu = draft.insert({.name = "fused attention",
                        .cost = static_cast<Ns>(cost.ns / kernels),
                        .phase = phase,
                        .layer = g.layer[first],
                        .after_gpu = gpu,
                        .after_cpu = cpu,
                        .cpu_cost = m.launches.cpu_per_launch[p],
                        .work = work,
                        .origin = cost.origin});
    cpu = gpu - 1;
  }
}

Status apply_flash_attention(Model& m, Draft& draft, const Parameters&) {
  const std::vector<Row> rows = rows_of(m, draft);
  const std::int64_t scores = score_elements(m, rows);
  if (scores == 0) return fail(ErrorCode::kDeclined, "no attention is computed from batched products and a softmax");
  const std::vector<Attention> all = find_attentions(m, rows, scores);
  for (const Attention& a : all) {
    Work work;
    work.family = Family::kAttention;
    work.dtype = work.out_dtype = a.first.dtype;
    work.batch = a.first.batch;
    work.heads = 1;
    work.queries = a.first.m;
    work.keys = a.first.n;
    work.head_size = a.first.k;
    work.elements = a.first.batch * a.first.m * a.first.k;
    const double pairs =
        static_cast<double>(a.first.batch) * static_cast<double>(a.first.m) * static_cast<double>(a.first.n);
    work.flops = 4 * pairs * static_cast<double>(a.first.k);
    work.bytes_read = 3.0 * static_cast<double>(work.elements) * static_cast<double>(bytes_of(work.dtype));
    work.bytes_written = static_cast<double>(work.elements) * static_cast<double>(bytes_of(work.dtype));
    if (!predict(work, m.device).known)
      return fail(ErrorCode::kDeclined, "this shape of attention is outside what the models cover");
    replace(m, draft, a.forward, work, Phase::kForward, 1);
    work.backward = true;
    work.flops *= 2.5;  // five products instead of two
    work.bytes_read *= 2;
    work.bytes_written *= 3;
    replace(m, draft, a.backward, work, Phase::kBackward, 3);
  }
  if (m.memory) {
    // Blocks as large as the scores are no longer kept.
    for (memory::Block& b : m.memory->blocks) {
      const std::int64_t bytes = scores * bytes_of(all.front().first.dtype);
      if (b.kind == memory::Kind::kActivation && (b.bytes == bytes || b.bytes == bytes / 4)) b.bytes = 0;
    }
  }
  return {};
}

}  // namespace

WhatIf flash_attention_whatif() {
  return {.name = "flash-attention",
          .about = "attention runs as one fused kernel that never writes its scores",
          .parameters = {},
          .assumes = "batched products around a softmax; no other use of the scores",
          .source = "Dao et al. 2022; torch scaled_dot_product_attention",
          .not_modelled = {},
          .needs = "shapes",
          .code = "F.scaled_dot_product_attention(q, k, v)",
          .effort = Effort::kFewLines,
          .stage = Stage::kKernels,
          .advise = {"flash-attention"},
          .validated = true,
          .apply = apply_flash_attention};
}

}  // namespace foretrace::whatif
