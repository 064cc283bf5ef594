

#include "base/saturate.hpp"
#include "base/text.hpp"
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
  // Fused kernels give no gradient of what is added to the scores: where that is learned, PyTorch computes attention from its parts
  // as the step does now.
  if (std::erase_if(all, [](const Attention& a) { return a.learned_bias; }) > 0)
    m.not_modelled.emplace_back("the FP32 products with which PyTorch computes attention that adds a learned bias");
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

const Registered kRegistered(
    {.name = "flash-attention",
     .about = "attention runs as one fused kernel that never writes its scores",
     .assumes = "batched products around a softmax; no other use of the scores; where a learned bias is added to them, "
                "attention stays as it is",
     .source = "Dao et al. 2022; torch scaled_dot_product_attention",
     .needs = {Need::kShapes},
     .changes = Changes::kKernels,
     .parts = {.memory = Part::kModelled},
     .code = "F.scaled_dot_product_attention(q, k, v)",
     .effort = Effort::kFewLines,
     .stage = Stage::kKernels,
     .advise = {"flash-attention"},
     .validated = true,
     .apply = apply_flash_attention,
     .whole_program = "in a compiled program attention is what the model calls: jax.nn.dot_product_attention(…, "
                      "implementation=\"cudnn\")",
     .write_code = write_code,
     .explains = {{Difference::kAttentionFused}}});

}  // namespace
}  // namespace foretrace::whatif
