

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/script.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/rewrite/fused_attention.hpp"

namespace foretrace::whatif {
namespace {

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
  return fuse_attentions(m, draft, flow, all);
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
