#include "whatif/rewrite/typed_rows.hpp"

#include <algorithm>
#include <cmath>

#include "whatif/rewrite/unit_rows.hpp"
#include "work/op_view.hpp"

namespace foretrace::whatif {

using work::Family;
using work::Work;

TypedRows::TypedRows(Model& m, Draft& draft, const Dataflow& flow, Autocast& types, work::Dtype dtype)
    : m_(m), draft_(draft), flow_(flow), types_(types), dtype_(dtype) {
  // On one stream: behind it, nothing of the backward pass is left that a wait for it could hold up.
  const std::uint32_t stream = main_stream(m.graph);
  for (std::uint32_t t = m.graph.lanes[stream].begin; t < m.graph.lanes[stream].end; ++t) {
    if (m.graph.phase[t] == Phase::kBackward && !draft.removed(t)) places_.end_of_backward = t;
  }
  places_.first.assign(flow.units.size(), kNone);
  places_.last_backward.assign(flow.units.size(), kNone);
  find_attention_views();
}

std::optional<bool> TypedRows::change(const Row& row) {
  const std::uint32_t event = m_.works[row.work].op_event;
  const std::uint32_t unit = flow_.unit_of(event);
  if (unit != kNone && row.phase == Phase::kBackward) {  // put there by another what-if
    places_.last_backward[unit] = row.tasks.back();
    return half(row, types_.units[unit].precision);
  }
  if (unit != kNone) {
    if (fused_away(row, unit)) return false;
    if (reorders_attention(row, unit)) {
      draft_.remove(row.tasks, Draft::kWithLaunch);
      return false;
    }
    if (places_.first[unit] == kNone) places_.first[unit] = row.tasks.front();
    return half(row, types_.units[unit].precision);
  }
  const Dataflow::Backward b = flow_.backward_of(event);
  if (b.unit == kNone) return std::nullopt;
  // The gradient of a parameter.
  if (b.node.starts_with("AccumulateGrad"))
    return types_.parameters == HalfParameters::kKept && half(row, Precision::kHalf);
  if (!b.sums && fused_away(row, b.unit)) return false;
  if (attention_view_[b.unit] != 0 && m_.works[row.work].family == Family::kCopy) {
    draft_.remove(row.tasks, Draft::kWithLaunch);
    return false;
  }
  places_.last_backward[b.unit] = row.tasks.back();
  if (cast_replaces_copy(row, b.unit)) return false;
  const AutocastUnit& a = types_.units[b.unit];
  // Gradients of one tensor are added up in the type of the tensor they belong to; a sum over broadcast dimensions is the
  // operation's own.
  if (b.sums && m_.works[row.work].family != Family::kReduction) return a.sums_half && half(row, Precision::kHalf);
  // Half and FP32 together compute their gradients in FP32 as before.
  return a.precision == Precision::kHalf && half(row, Precision::kHalf);
}

// A gradient that is cast back comes out dense: where one was copied for that before, the cast takes the copy's place, and its time
// (26 of them in DLRM's step: 26.7 us as a copy, 30 as a cast).
bool TypedRows::cast_replaces_copy(const Row& row, std::uint32_t unit) {
  const Work& copy = m_.works[row.work];
  if (copy.family != Family::kCopy || copy.access == work::Access::kContiguous || copy.out_dtype != copy.dtype ||
      types_.units[unit].precision == Precision::kHalf)
    return false;
  for (const std::uint32_t value : flow_.units[unit].outputs) {
    for (const std::uint32_t reader : flow_.values[value].consumers) {
      for (Cast& c : types_.units[reader].casts) {
        const auto elements = std::llround(static_cast<double>(c.elements) * m_.pass_samples);
        if (c.value != value || !c.gradient || c.replaces_copy || c.to_float || c.weight || elements != copy.elements)
          continue;
        c.replaces_copy = true;
        return true;
      }
    }
  }
  return false;
}

// In half precision attention runs in cuDNN's kernels, which take operands as they are, give results and gradients in the order of the
// operands in memory, and need nothing around them. Those for FP32 write (batch, row, head, channel) whatever they read.
bool TypedRows::fused_away(const Row& row, std::uint32_t unit) {
  if (m_.works[row.work].family == Family::kAttention || !half_attention(unit)) return false;
  draft_.remove(row.tasks, Draft::kWithLaunch);
  return true;
}

bool TypedRows::half_attention(std::uint32_t unit) const {
  return unit != kNone && flow_.units[unit].name == "aten::scaled_dot_product_attention" &&
         types_.units[unit].precision == Precision::kHalf;
}

// Views that only reshape, between what computes an operand of attention and attention: backward, a gradient in another order in memory
// is copied for them.
void TypedRows::find_attention_views() {
  attention_view_.assign(flow_.units.size(), 0);
  for (std::uint32_t u = 0; u < flow_.units.size(); ++u) {
    if (!half_attention(u)) continue;
    for (const Input& in : flow_.units[u].inputs) {
      for (std::uint32_t by = flow_.values[in.value].producer; by != kNone && !flow_.units[by].computes;) {
        const Unit& view = flow_.units[by];
        if (view.name == "aten::view" || view.name == "aten::reshape" || view.name == "aten::unflatten")
          attention_view_[by] = 1;
        by = view.inputs.empty() ? kNone : flow_.values[view.inputs.front().value].producer;
      }
    }
  }
}

// A copy of attention's result into the order that its query has.
bool TypedRows::reorders_attention(const Row& row, std::uint32_t unit) const {
  const std::string_view name = flow_.units[unit].name;
  if (m_.works[row.work].family != Family::kCopy || (name != "aten::contiguous" && name != "aten::reshape"))
    return false;
  const std::uint32_t from = source_of(flow_, unit);
  if (!half_attention(from)) return false;
  const auto view_of = [&](std::uint32_t u) {
    return work::OpView(*flow_.trace, flow_.trace->events.args[flow_.units[u].event]);
  };
  const work::OpView query = view_of(from);
  const work::OpView result = view_of(unit);
  if (!query.tensor(0, 4) || !result.tensor(0, 4) || query[0].strides.empty() || result[0].strides.empty())
    return false;
  const work::Shape& sizes = query[0].shape();  // batch, head, row, channel
  const work::Shape written = {sizes[1] * sizes[2] * sizes[3], sizes[3], sizes[1] * sizes[3], 1};
  std::int64_t before = INT64_MAX;
  for (const std::int64_t stride : result[0].strides.front()) {
    const auto dim = static_cast<std::size_t>(std::find(written.begin(), written.end(), stride) - written.begin());
    if (dim == written.size() || query[0].strides.front()[dim] > before) return false;
    before = query[0].strides.front()[dim];
  }
  return true;
}

}  // namespace foretrace::whatif
