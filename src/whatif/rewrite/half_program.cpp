#include "whatif/rewrite/half_program.hpp"

#include <algorithm>

#include "whatif/rewrite/precision_memory.hpp"
#include "whatif/rewrite/type_rules.hpp"
#include "whatif/rewrite/typed_rows.hpp"
#include "whatif/rewrite/workspaces.hpp"
#include "work/op_view.hpp"

namespace foretrace::whatif {

namespace {

constexpr std::int64_t kTorchFloat = 6;  // c10::ScalarType::Float, as the profiler prints a type that is asked for

class HalfProgram : public TypeRules {
 public:
  HalfProgram(const Dataflow& flow, work::Dtype dtype, HalfParameters parameters) : TypeRules(flow), dtype_(dtype) {
    out_.parameters = parameters;
    for (std::size_t v = 0; v < flow.values.size(); ++v) out_.half[v] = flow.values[v].producer == kNone ? 1 : 0;
    find_conversions();
    follow_products();
  }

 private:
  // What a result leads to, without a conversion in between.
  struct LeadsTo {
    bool product = false;       ///< operands of one type, whichever
    bool half_product = false;  ///< one with an operand that nothing converted
  };

  void find_conversions() {
    converts_.assign(flow_.units.size(), 0);
    for (std::size_t u = 0; u < flow_.units.size(); ++u) {
      const std::string_view name = plain_name(flow_.units[u].name);
      const bool asks = name == "to" || name == "_to_copy" || name == "type_as" || name == "float";
      converts_[u] = asks && !flow_.units[u].computes ? 1 : 0;
    }
  }

  // softmax(x, dim, dtype=torch.float32)
  [[nodiscard]] bool asks_for_float(const Unit& u) const {
    if (plain_name(u.name) != "softmax" && plain_name(u.name) != "log_softmax") return false;
    return work::OpView(*flow_.trace, flow_.trace->events.args[u.event]).integer(2, 0) == kTorchFloat;
  }

  // Does a conversion make it, but for views?
  [[nodiscard]] bool converted(std::uint32_t value) const {
    while (true) {
      const std::uint32_t by = flow_.values[value].producer;
      if (by == kNone) return false;
      if (converts_[by] != 0) return true;
      if (flow_.units[by].computes || flow_.units[by].inputs.empty()) return false;
      value = flow_.units[by].inputs.front().value;
    }
  }
  [[nodiscard]] bool all_converted(const Unit& product) const {
    return !product.inputs.empty() && std::all_of(product.inputs.begin(), product.inputs.end(),
                                                  [&](const Input& in) { return converted(in.value); });
  }

  void follow_products() {
    leads_to_.assign(flow_.units.size(), {});
    for (std::size_t u = flow_.units.size(); u-- > 0;) {
      for (const std::uint32_t v : flow_.units[u].outputs) {
        for (const std::uint32_t r : flow_.values[v].consumers) {
          const Unit& reader = flow_.units[r];
          if (r <= u || converts_[r] != 0) continue;
          const bool product = reader.computes && in_lower_precision(reader.name);
          LeadsTo further = leads_to_[r];
          if (product) further = {true, !all_converted(reader)};
          if (!product && asks_for_float(reader)) continue;
          leads_to_[u].product |= further.product;
          leads_to_[u].half_product |= further.half_product;
        }
      }
    }
  }

  bool convert(std::size_t index, const Unit& u, AutocastUnit& a) const {
    if (u.inputs.empty()) return leads_to_[index].product;  // of integers
    const Input& from = u.inputs.front();
    // A number has the type of what it is used with.
    const bool to_half = from.elements <= 1 || (half(from) ? leads_to_[index].half_product : leads_to_[index].product);
    if (half(from) != to_half) a.casts.push_back({from.elements, from.value, false, !to_half, needs(from, u)});
    if (to_half) a.precision = Precision::kHalf;  // its backward pass may copy
    a.sums_half = half(from);
    return to_half;
  }

  bool one(std::size_t index, AutocastUnit& a) override {
    const Unit& u = flow_.units[index];
    if (converts_[index] != 0) return convert(index, u, a);
    const bool first_half = !u.inputs.empty() && half(u.inputs.front());
    a.sums_half = first_half;
    // Constants, and what is made of numbers, have the type of what they are used with.
    const bool of_numbers =
        std::all_of(u.inputs.begin(), u.inputs.end(), [&](const Input& in) { return in.elements <= 1 && half(in); });
    if (of_numbers) {
      a.precision = Precision::kHalf;
      return true;
    }
    if (u.computes && in_lower_precision(u.name)) {
      const bool as_float =
          all_converted(u) && std::none_of(u.inputs.begin(), u.inputs.end(), [&](const Input& in) { return half(in); });
      if (!as_float) a.precision = Precision::kHalf;
      return !as_float;
    }
    if (asks_for_float(u)) {
      // PyTorch's kernel reads fp16 and writes FP32; bf16 is converted in front of it.
      a.reads_half = first_half && dtype_ == work::Dtype::kFp16;
      const Input& in = u.inputs.front();
      if (first_half && !a.reads_half) a.casts.push_back({in.elements, in.value, false, true, needs(in, u)});
      return false;
    }
    return follow_inputs(u, a);
  }

  work::Dtype dtype_;
  std::vector<char> converts_;     // by unit
  std::vector<LeadsTo> leads_to_;  // by unit
};

}  // namespace

Autocast half_program(const Dataflow& flow, work::Dtype dtype, HalfParameters parameters) {
  return HalfProgram(flow, dtype, parameters).run();
}

std::size_t write_types(Model& m, Draft& draft, Autocast& types, work::Dtype dtype,
                        const std::function<bool(const Row&)>& elsewhere) {
  const std::shared_ptr<const Dataflow> flow = shared_flow(m);
  const std::size_t works_before = m.works.size();
  TypedRows typed(m, draft, *flow, types, dtype);
  std::size_t changed = 0;
  for (const Row& row : rows_of(m, draft)) {
    const bool passes = row.phase == Phase::kForward || row.phase == Phase::kBackward;
    const std::optional<bool> known =
        passes && m.works[row.work].op_event != kNone ? typed.change(row) : std::optional<bool>();
    changed += known ? *known : elsewhere(row) ? 1 : 0;
  }
  if (changed == 0) return 0;
  insert_casts(m, draft, *flow, types, typed.places(), dtype);
  if (m.memory) autocast_memory(m, *flow, types);
  resize_workspaces(m, works_before);
  return changed;
}

}  // namespace foretrace::whatif
