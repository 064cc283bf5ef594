#include "whatif/rewrite/fused_attention.hpp"

#include "base/saturate.hpp"
#include "base/text.hpp"
#include "hardware/cost.hpp"

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
      const bool masks = contains_any(flow.units[unit].name,
                                      {"dropout", "mask", "where", "bernoulli", "logical", "scaled_dot_product"});
      const bool gone = memory::could_hold(b, a.scores * 4) || (half && memory::could_hold(b, a.scores * 2)) ||
                        (masks && memory::could_hold(b, a.scores));
      if (gone) b.bytes = 0;
    }
  }
}

Work fused(const Dataflow& flow, const Attention& a, std::optional<work::Dtype> dtype, bool backward) {
  const work::Dtype recorded = a.dtype == work::Dtype::kTf32 ? work::Dtype::kFp32 : a.dtype;
  Work out = work::attention_work(a.first.batch, 1, a.first.m, a.first.n, a.first.k, dtype.value_or(recorded), backward,
                                  a.causal, a.dropout);
  if (a.first_unit != kNone) out.op_event = flow.units[a.first_unit].event;
  return out;
}

}  // namespace

std::vector<Attention> fused_in_half(const Model& m, const std::vector<Row>& rows, const Dataflow& flow) {
  std::vector<Attention> all = find_attentions(m, rows, flow);
  std::erase_if(all, [&](const Attention& a) {
    return a.learned_bias || a.first_unit == kNone ||
           flow.units[a.first_unit].name != "aten::scaled_dot_product_attention";
  });
  return all;
}

Status fuse_attentions(Model& m, Draft& draft, const Dataflow& flow, const std::vector<Attention>& all,
                       std::optional<work::Dtype> dtype) {
  for (const Attention& a : all) {
    if (!predict(fused(flow, a, dtype, false), m.device).known)
      return fail(ErrorCode::kDeclined, "this shape of attention is outside what the models cover");
  }
  for (const Attention& a : all) {
    replace_rows(m, draft, a.forward, fused(flow, a, dtype, false), "fused attention", 1);
    replace_rows(m, draft, a.backward, fused(flow, a, dtype, true), "fused attention", kBackwardKernels);
  }
  if (m.memory) forget_scores(*m.memory, flow, all);
  return {};
}

}  // namespace foretrace::whatif
