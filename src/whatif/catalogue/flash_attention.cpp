#include <fmt/format.h>

#include <algorithm>

#include "base/saturate.hpp"
#include "base/text.hpp"
#include "graph/latencies.hpp"
#include "hardware/cost.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/script.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/rewrite/attentions.hpp"

namespace foretrace::whatif {

namespace {

using work::Work;

// The fused backward pass: row sums of result times gradient, the gradients, and those of the queries converted.
constexpr int kBackwardKernels = 3;

// Scores, what is made of them and their masks are no longer allocated; queries, keys, values and the result still are.
void forget_scores(memory::Curve& curve, const Dataflow& flow, const std::vector<Attention>& all) {
  for (memory::Block& b : curve.blocks) {
    if (b.op == kNone || b.allocated == 0) continue;
    std::uint32_t unit = flow.unit_of(b.op);
    if (unit == kNone) unit = flow.backward_of(b.op).unit;
    if (unit == kNone) continue;
    for (const Attention& a : all) {
      if (!a.units.contains(unit)) continue;
      const bool half = is_half(a.dtype);
      // One byte for each score is a mask; a copy of the result may be as large.
      const bool masks = contains_any(flow.units[unit].name, {"dropout", "mask", "where", "bernoulli", "logical"});
      const bool gone = memory::could_hold(b, a.scores * 4) || (half && memory::could_hold(b, a.scores * 2)) ||
                        (masks && memory::could_hold(b, a.scores));
      if (gone) b.bytes = 0;
    }
  }
}

struct Step {
  const char* name;
  Work work;
};

// What PyTorch does where something that is added to the scores needs a gradient (ATen's attention.cpp, _scaled_dot_product_attention_math): the
// parts, products in FP32 whatever the type, beside the rows of the step as it is. Queries and keys are scaled each, rows that are masked
// altogether are looked for; half operands are widened first, and what comes out is narrowed.
std::vector<Step> beside_parts(const Attention& a, bool backward) {
  using work::Access;
  using work::Dtype;
  const std::int64_t rows = saturated_product(a.first.batch, a.first.m);
  const std::int64_t queries = saturated_product(rows, a.first.k);
  const std::int64_t keys = saturated_product(saturated_product(a.first.batch, a.first.n), a.first.k);
  const bool half = is_half(a.dtype);
  std::vector<Step> out;
  const auto widen = [&](std::int64_t n) {
    if (half) out.push_back({"attention widens", work::cast_work(n, a.dtype, Dtype::kFp32)});
  };
  const auto narrow = [&](std::int64_t n) {
    if (half) out.push_back({"attention narrows", work::cast_work(n, Dtype::kFp32, a.dtype)});
  };
  if (backward) widen(queries);
  for (const std::int64_t n : {queries, keys}) {
    if (!backward) widen(n);
    out.push_back({"attention scales", work::elementwise_work(n, 1, 1, Dtype::kFp32)});
    if (backward) narrow(n);
  }
  if (backward) {
    narrow(keys);
    return out;
  }
  widen(keys);
  Work masked = work::elementwise_work(a.scores, 1, 1, Dtype::kFp32);
  masked.bytes_written = static_cast<double>(a.scores);  // a byte for each
  out.push_back({"attention looks for masked rows", masked});
  Work all(work::Family::kReduction);
  all.dtype = all.out_dtype = Dtype::kOther;
  all.elements = a.scores;
  all.kind = work::Rows{rows, a.first.n};
  all.bytes_read = static_cast<double>(a.scores);
  all.bytes_written = static_cast<double>(rows);
  out.push_back({"attention looks for masked rows", all});
  out.push_back({"attention looks for masked rows", work::elementwise_work(1, 1, 1, Dtype::kFp32)});
  Work where = work::elementwise_work(a.scores, 1, 1, Dtype::kFp32);
  where.access = Access::kStrided;
  out.push_back({"attention looks for masked rows", where});
  narrow(queries);
  return out;
}

void compute_from_parts(Model& m, Draft& draft, const Attention& a) {
  for (const bool backward : {false, true}) {
    const std::vector<const Row*>& rows = backward ? a.backward : a.forward;
    if (rows.empty()) continue;
    for (const Row* r : rows) {
      const Work& was = m.works[r->work];
      if (!std::holds_alternative<work::Gemm>(was.kind) || !is_half(was.dtype)) continue;
      Work strict = with_dtype(was, work::Dtype::kFp32);
      set_row(m, draft, *r, rescale_row(m, *r, strict), strict);
    }
    const Graph& g = m.graph;
    std::uint32_t gpu = rows.front()->tasks.back();
    if (!g.launch[gpu].valid()) continue;
    std::uint32_t cpu = g.launch[gpu].value;
    const auto p = static_cast<std::size_t>(backward ? host::CpuPhase::kBackward : host::CpuPhase::kForward);
    for (const Step& s : beside_parts(a, backward)) {
      const hardware::Cost cost = predict(s.work, m.device);
      gpu = draft.insert({.name = s.name,
                          .cost = cost.known ? static_cast<Ns>(cost.ns) : graph::usual_latencies().short_kernel,
                          .phase = backward ? Phase::kBackward : Phase::kForward,
                          .layer = g.layer[rows.front()->tasks.back()],
                          .after_gpu = gpu,
                          .after_cpu = cpu,
                          .cpu_cost = m.launches.cpu_per_launch[p],
                          .work = m.works.add(s.work),
                          .origin = cost.origin});
      cpu = gpu - 1;
    }
  }
}

Status apply_flash_attention(Model& m, Draft& draft, const Parameters&) {
  const std::vector<Row> rows = rows_of(m, draft);
  const std::shared_ptr<const Dataflow> shared = shared_flow(m);
  const Dataflow& flow = *shared;
  std::vector<Attention> all = find_attentions(m, rows, flow);
  // PyTorch was asked for it and computes some from their parts all the same: a bias that needs a gradient, a head too large.
  const std::size_t asked_for = std::erase_if(all, [&](const Attention& a) {
    return a.first_unit != kNone && flow.units[a.first_unit].name == "aten::scaled_dot_product_attention";
  });
  if (all.empty() && (asked_for > 0 || step_facts(m)->fused_attention))
    return fail(ErrorCode::kDeclined, "the step's attention already is a call of scaled_dot_product_attention");
  if (all.empty()) return fail(ErrorCode::kDeclined, "no attention is computed from batched products and a softmax");
  // Where something learned is added to the scores, PyTorch computes attention from its parts whoever asks.
  const auto fused = std::stable_partition(all.begin(), all.end(), [](const Attention& a) { return a.learned_bias; });
  for (auto it = all.begin(); it != fused; ++it) compute_from_parts(m, draft, *it);
  all.erase(all.begin(), fused);
  for (const Attention& a : all) {
    const work::Dtype dtype = a.dtype == work::Dtype::kTf32 ? work::Dtype::kFp32 : a.dtype;
    const auto one_kernel = [&](bool backward) {
      return work::attention_work(a.first.batch, 1, a.first.m, a.first.n, a.first.k, dtype, backward, a.causal,
                                  a.dropout);
    };
    Work forward = one_kernel(false);
    Work backward = one_kernel(true);
    if (a.first_unit != kNone) forward.op_event = backward.op_event = flow.units[a.first_unit].event;
    if (!predict(forward, m.device).known)
      return fail(ErrorCode::kDeclined, "this shape of attention is outside what the models cover");
    replace_rows(m, draft, a.forward, forward, "fused attention", 1);
    replace_rows(m, draft, a.backward, backward, "fused attention", kBackwardKernels);
  }
  if (m.memory) forget_scores(*m.memory, flow, all);
  return {};
}

void write_code(const ScriptPart& p, ScriptPlaces& to) { to.model.push_back("    fused_attention(model)" + p.gain); }

WhatIf flash_attention_whatif() {
  return {.name = "flash-attention",
          .about = "attention runs as one fused kernel that never writes its scores",
          .parameters = {},
          .assumes =
              "batched products around a softmax; no other use of the scores; where a learned bias is added to them "
              "PyTorch computes attention from its parts all the same, in FP32",
          .source = "Dao et al. 2022; torch scaled_dot_product_attention",
          .not_modelled = {},
          .needs = {Need::kShapes},
          .changes = Changes::kKernels,
          .parts = {.memory = Part::kModelled},
          .code = "F.scaled_dot_product_attention(q, k, v)",
          .effort = Effort::kFewLines,
          .stage = Stage::kKernels,
          .advise = {"flash-attention"},
          .validated = true,
          .apply = apply_flash_attention,
          .whole_program =
              "in a compiled program attention is what the model calls: jax.nn.dot_product_attention(…, "
              "implementation=\"cudnn\")",
          .write_code = write_code};
}

const Registered kRegistered(flash_attention_whatif);

}  // namespace

}  // namespace foretrace::whatif
