#include "whatif/rewrite/half_step.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/saturate.hpp"
#include "whatif/rewrite/autocast_tasks.hpp"
#include "whatif/rewrite/half_program.hpp"
#include "whatif/rewrite/workspaces.hpp"

namespace foretrace::whatif {

using memory::Block;
using memory::Kind;
using work::Dtype;
using work::Work;

namespace {

bool asks_for_a_type(std::string_view name) {
  constexpr std::array<std::string_view, 7> kNames = {"aten::to",   "aten::_to_copy", "aten::type_as", "aten::type",
                                                      "aten::half", "aten::bfloat16", "aten::float"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool is_float(Dtype d) { return d == Dtype::kFp32 || d == Dtype::kTf32; }

// Between FP32 and a half type.
bool converts(const Work& w) {
  return w.family == work::Family::kCopy && is_float(w.dtype) != is_float(w.out_dtype) &&
         (work::is_half(w.dtype) || work::is_half(w.out_dtype));
}

// An operation of a half type that wrote FP32, because another operand had that type.
bool widens(const Work& w) { return work::is_half(w.dtype) && w.out_dtype == Dtype::kFp32 && !converts(w); }

Work narrowed(Work w, Dtype dtype) {
  w.out_dtype = dtype;
  w.bytes_written = w.fixed_written + (w.bytes_written - w.fixed_written) / 2;
  w.bytes_read -= w.fixed_read / 2;  // the operand of the other type
  w.fixed_read /= 2;
  if (w.access == work::Access::kMixed) w.access = work::Access::kContiguous;
  if (w.access == work::Access::kMixedStrided) w.access = work::Access::kStrided;
  return w;
}

class HalfWriter {
 public:
  HalfWriter(Model& m, Draft& draft, const Dataflow& flow, Dtype dtype)
      : m_(m), draft_(draft), flow_(flow), dtype_(dtype), rows_(rows_of(m, draft)), half_(half_step(m, flow, rows_)) {}

  std::size_t run() {
    const std::size_t works_before = m_.works.size();
    std::size_t changed = 0;
    for (const Row& row : rows_) changed += change(row) ? 1 : 0;
    draft_.remove(gone_, Draft::kWithLaunch);
    if (m_.memory) shrink();
    resize_workspaces(m_, works_before);
    return changed + gone_.size();
  }

 private:
  bool change(const Row& row) {
    const Work& work = m_.works[row.work];
    if (work.op_event == kNone || (row.phase != Phase::kForward && row.phase != Phase::kBackward)) return false;
    const std::uint32_t forward = flow_.unit_of(work.op_event);
    const Dataflow::Backward back = forward == kNone ? flow_.backward_of(work.op_event) : Dataflow::Backward{};
    const std::uint32_t unit = forward != kNone ? forward : back.unit;
    if (unit == kNone) return row.phase == Phase::kBackward && is_product(work) && narrow(row);
    if (converts(work) && !(forward == kNone && back.sums)) {
      if (half_.leaves[unit] != 0 || (half_.units[unit] == 0 && !asks_for_a_type(flow_.units[unit].name))) return false;
      gone_.insert(gone_.end(), row.tasks.begin(), row.tasks.end());
      return true;
    }
    if (forward == kNone && back.sums) {
      const std::vector<Input>& inputs = flow_.units[unit].inputs;
      return !inputs.empty() && half_.values[inputs.front().value] != 0 && narrow(row);
    }
    return half_.units[unit] != 0 && narrow(row);
  }

  bool narrow(const Row& row) {
    const Work work = m_.works[row.work];
    if (!widens(work)) return change_precision(m_, draft_, row, Precision::kHalf, dtype_);
    const Work becomes = narrowed(work, dtype_);
    const hardware::Cost cost = rescale_row(m_, row, becomes);
    if (!cost.known) return false;
    set_row(m_, draft_, row, cost, becomes);
    return true;
  }

  // Shapes are those of the trace; a what-if before this one may have changed the batch.
  [[nodiscard]] bool holds(const Block& b, std::int64_t elements, std::int64_t size, bool weight) const {
    const double times = weight ? 1 : m_.pass_samples;
    const std::int64_t now = saturated(static_cast<double>(elements) * times);
    return now > 0 && memory::could_hold(b, saturated_product(now, size));
  }

  // Memory of the results: an FP32 tensor becomes half as large. A cast's copy goes; what it was made of then stays as long.
  void shrink() {
    memory::Curve& c = *m_.memory;
    std::vector<std::uint32_t> unit(c.blocks.size(), kNone);
    std::vector<std::uint32_t> made(flow_.values.size(), kNone);  // by value: the block that holds it
    for (std::uint32_t i = 0; i < c.blocks.size(); ++i) {
      const Block& b = c.blocks[i];
      if (b.op == kNone || b.allocated == 0 || b.stage == memory::Stage::kUpdate) continue;
      unit[i] = b.stage == memory::Stage::kForward ? flow_.unit_of(b.op) : flow_.backward_of(b.op).unit;
      if (unit[i] == kNone || b.stage != memory::Stage::kForward) continue;
      for (const std::uint32_t v : flow_.units[unit[i]].outputs) {
        if (flow_.values[v].shape.empty()) continue;
        const std::int64_t n = work::elements_of(flow_.values[v].shape);
        if (holds(b, n, 4, false) || holds(b, n, 2, false)) made[flow_.values[v].storage] = i;
      }
    }
    for (std::uint32_t i = 0; i < c.blocks.size(); ++i) {
      if (unit[i] == kNone || half_.units[unit[i]] == 0 || c.blocks[i].kind == Kind::kGradient) continue;
      if (is_cast(c.blocks[i], unit[i])) {
        drop_cast(c, i, unit[i], made);
      } else {
        halve(c.blocks[i], unit[i]);
      }
    }
  }

  // Autocast asks for empty_strided; results of the operation itself come from elsewhere.
  [[nodiscard]] bool is_cast(const Block& b, std::uint32_t unit) const {
    if (asks_for_a_type(flow_.units[unit].name)) return half_.leaves[unit] == 0;
    if (b.stage == memory::Stage::kBackward) return flow_.backward_of(b.op).node.starts_with("ToCopy");
    if (flow_.trace->name(b.op) != "aten::empty_strided") return false;
    const std::vector<Input>& inputs = flow_.units[unit].inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](const Input& in) {
      return holds(b, in.elements, 2, true) || holds(b, in.elements, 2, false);
    });
  }

  void drop_cast(memory::Curve& c, std::uint32_t i, std::uint32_t unit, const std::vector<std::uint32_t>& made) {
    Block& b = c.blocks[i];
    for (const Input& in : flow_.units[unit].inputs) {
      const std::uint32_t source = made[flow_.values[in.value].storage];
      if (b.stage != memory::Stage::kForward || source == kNone || source == i || !holds(b, in.elements, 2, false))
        continue;
      c.blocks[source].freed = std::max(c.blocks[source].freed, b.freed);
      if (b.kind == Kind::kActivation) c.blocks[source].kind = b.kind;
      break;
    }
    b.bytes = 0;
  }

  void halve(Block& b, std::uint32_t unit) const {
    const Unit& u = flow_.units[unit];
    // Of a step with twice the samples, a tensor in half precision is as large as the traced one in FP32.
    const auto whole = [&](std::int64_t n) {
      return holds(b, n, 4, false) || (!holds(b, n, 2, false) && holds(b, n, 4, true));
    };
    const bool result = std::any_of(u.outputs.begin(), u.outputs.end(), [&](std::uint32_t v) {
      return !flow_.values[v].shape.empty() && whole(work::elements_of(flow_.values[v].shape));
    });
    const bool input =
        b.stage == memory::Stage::kBackward &&
        std::any_of(u.inputs.begin(), u.inputs.end(), [&](const Input& in) { return whole(in.elements); });
    if (!b.workspace && (result || input)) b.bytes /= 2;
  }

  Model& m_;
  Draft& draft_;
  const Dataflow& flow_;
  Dtype dtype_;
  std::vector<Row> rows_;
  HalfStep half_;
  Selection gone_;
};

}  // namespace

HalfStep half_step(const Model& m, const Dataflow& flow, const std::vector<Row>& rows) {
  std::vector<const Work*> conversion(flow.units.size(), nullptr);
  for (const Row& row : rows) {
    const Work& w = m.works[row.work];
    if (w.op_event == kNone || !converts(w)) continue;
    if (const std::uint32_t u = flow.unit_of(w.op_event); u != kNone) conversion[u] = &w;
  }
  HalfStep out;
  out.values.assign(flow.values.size(), 1);
  for (std::uint32_t u = 0; u < flow.units.size(); ++u) {
    const Unit& unit = flow.units[u];
    const bool explicitly = asks_for_a_type(unit.name) && conversion[u] != nullptr;
    // What was there before the step is a parameter, and half; constants follow what they are used with.
    bool half = std::all_of(unit.inputs.begin(), unit.inputs.end(), [&](const Input& in) {
      return flow.values[in.value].producer == kNone || out.values[in.value] != 0;
    });
    bool leaves = false;
    if (explicitly) {
      const bool to_half = work::is_half(conversion[u]->out_dtype);
      leaves = to_half != half;  // what has the type already is not converted
      half = to_half;
    }
    out.units.push_back(half && !explicitly ? 1 : 0);
    out.leaves.push_back(leaves ? 1 : 0);
    for (const std::uint32_t v : unit.outputs) out.values[v] = half ? 1 : 0;
  }
  return out;
}

std::size_t compute_in_half(Model& m, Draft& draft, Dtype dtype) {
  const std::shared_ptr<const Dataflow> flow = shared_flow(m);
  const bool in_fp32 = std::none_of(m.works.rows.begin(), m.works.rows.end(),
                                    [](const Work& w) { return work::is_half(w.dtype) || work::is_half(w.out_dtype); });
  if (in_fp32) {
    Autocast types = half_program(*flow, dtype, HalfParameters::kGathered);
    return write_types(m, draft, types, dtype, [&](const Row& row) {
      return row.phase == Phase::kBackward && is_product(m.works[row.work]) &&
             change_precision(m, draft, row, Precision::kHalf, dtype);
    });
  }
  return HalfWriter(m, draft, *flow, dtype).run();
}

}  // namespace foretrace::whatif
