#include "whatif/rewrite/precision_memory.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/saturate.hpp"
#include "base/text.hpp"

namespace foretrace::whatif {

namespace {

using memory::Block;
using memory::Kind;
using memory::Stage;

/// Positions among the allocator's events.
struct Span {
  std::uint32_t first = UINT32_MAX, last = 0;
  void cover(std::uint32_t position) {
    first = std::min(first, position);
    last = std::max(last, position);
  }
};

/// The memory curve matched with the data flow: where units and their gradients stand among the allocator's events, which block holds
/// which tensor, and the blocks a change adds.
class CurveRewriter {
 public:
  /// `sizes`: bytes an element of a result may have in the trace.
  CurveRewriter(Model& m, const Dataflow& flow, std::initializer_list<std::int64_t> sizes)
      : c_(*m.memory),
        flow_(flow),
        samples_(m.pass_samples),
        forward_(flow.units.size()),
        backward_(flow.units.size()),
        unit_(c_.blocks.size(), kNone),
        sums_(c_.blocks.size(), 0),
        block_of_(flow.values.size(), kNone) {
    for (std::uint32_t i = 0; i < c_.blocks.size(); ++i) locate(i, sizes);
    // Units without memory of their own happen where the one before them did.
    Span at{0, 0};
    for (Span& unit : forward_) {
      if (unit.first == UINT32_MAX) unit = {at.last, at.last};
      at = unit;
    }
    at = {c_.backward_from, c_.backward_from};
    for (auto unit = backward_.rbegin(); unit != backward_.rend(); ++unit) {
      if (unit->first == UINT32_MAX) *unit = {at.last + 1, at.last + 1};
      at = *unit;
    }
  }

 protected:
  // Shapes are those of the trace; a what-if before this one may have changed the batch.
  [[nodiscard]] std::int64_t of_the_batch(std::int64_t elements) const {
    return saturated(std::round(static_cast<double>(elements) * samples_));
  }
  [[nodiscard]] bool holds(const Block& b, std::int64_t elements, std::int64_t size) const {
    return elements > 0 && memory::could_hold(b, saturated_product(of_the_batch(elements), size));
  }

  void add(std::uint32_t unit, std::int64_t bytes, std::uint32_t from, std::uint32_t to, Kind kind, Stage stage,
           bool workspace = false) {
    if (bytes <= 0 || to <= from) return;
    added_.push_back({.bytes = bytes,
                      .allocated = from,
                      .freed = to,
                      .kind = kind,
                      .stage = stage,
                      .op = flow_.units[unit].event,
                      .workspace = workspace});
  }
  void put_added() { memory::add_blocks(c_, added_); }

  /// Frees what holds `storage` when the last operation of the forward pass has read it, unless an operation that keeps tensors
  /// in the trace still keeps this one. `keeps_copy(u, v)`: unit u keeps a converted copy of value v instead.
  void free_early(std::uint32_t storage, const std::function<bool(std::uint32_t, std::uint32_t)>& keeps_copy) {
    if (block_of_[storage] == kNone || flow_.values[storage].producer == kNone) return;
    Block& b = c_.blocks[block_of_[storage]];
    std::uint32_t last = forward_[flow_.values[storage].producer].last;
    bool copied = false;
    for (const std::uint32_t v : values_in(storage)) {
      const std::uint32_t by = flow_.values[v].producer;
      if (by != kNone && !flow_.units[by].computes) {
        // A conversion that changed nothing made a view; now that it converts, its result is a tensor of its own.
        const std::vector<Input>& from = flow_.units[by].inputs;
        if (std::any_of(from.begin(), from.end(), [&](const Input& in) { return keeps_copy(by, in.value); })) continue;
      } else if (by != kNone && keeps_result(flow_.units[by].name)) {
        return;
      }
      for (const std::uint32_t u : flow_.values[v].consumers) {
        last = std::max(last, forward_[u].last);
        if (keeps_copy(u, v))
          copied = true;
        else if (flow_.units[u].computes && keeps_input(flow_.units[u].name))
          return;
      }
    }
    if (!copied || last >= b.freed) return;
    b.freed = last + 1;
    b.kind = Kind::kTemporary;
  }

  memory::Curve& c_;
  const Dataflow& flow_;
  double samples_;
  std::vector<Span> forward_, backward_;  // by unit
  std::vector<std::uint32_t> unit_;       // by block; kNone: of none
  std::vector<char> sums_;                // by block: adds gradients up
  std::vector<std::uint32_t> block_of_;   // by value; kNone where none is known

 private:
  void locate(std::uint32_t i, std::initializer_list<std::int64_t> sizes) {
    const Block& b = c_.blocks[i];
    if (b.op == kNone || b.allocated == 0) return;
    if (b.stage == Stage::kForward) {
      const std::uint32_t u = unit_[i] = flow_.unit_of(b.op);
      if (u == kNone) return;
      forward_[u].cover(b.allocated);
      for (const std::uint32_t v : flow_.units[u].outputs) {
        if (flow_.values[v].shape.empty()) continue;
        const std::int64_t elements = work::elements_of(flow_.values[v].shape);
        if (std::any_of(sizes.begin(), sizes.end(), [&](std::int64_t size) { return holds(b, elements, size); }))
          block_of_[v] = i;
      }
    } else if (b.stage == Stage::kBackward) {
      const Dataflow::Backward back = flow_.backward_of(b.op);
      unit_[i] = back.unit;
      sums_[i] = back.sums ? 1 : 0;
      if (back.unit != kNone) backward_[back.unit].cover(b.allocated);
    }
  }

  const std::vector<std::uint32_t>& values_in(std::uint32_t storage) {
    if (sharing_.empty()) {
      sharing_.resize(flow_.values.size());
      for (std::uint32_t v = 0; v < flow_.values.size(); ++v) sharing_[flow_.values[v].storage].push_back(v);
    }
    return sharing_[storage];
  }

  std::vector<std::vector<std::uint32_t>> sharing_;  // by storage: the values in it
  std::vector<Block> added_;
};

class AutocastMemory : CurveRewriter {
 public:
  AutocastMemory(Model& m, const Dataflow& flow, const Autocast& cast) : CurveRewriter(m, flow, {4}), cast_(cast) {}

  void run() {
    for (std::size_t i = 0; i < c_.blocks.size(); ++i) resize(i);
    if (cast_.parameters == HalfParameters::kKept) halve_parameters();
    find_own_copies();
    for (std::uint32_t s = 0; s < flow_.values.size(); ++s) {
      if (block_of_[s] == kNone) continue;
      const Kind kind = c_.blocks[block_of_[s]].kind;
      if (kind == Kind::kActivation || kind == Kind::kTemporary)
        free_early(s, [&](std::uint32_t u, std::uint32_t v) { return casts(u, v); });
    }
    for (std::uint32_t u = 0; u < flow_.units.size(); ++u) add_casts(u);
    put_added();
  }

 private:
  [[nodiscard]] bool casts(std::uint32_t unit, std::uint32_t value) const {
    const std::vector<Cast>& all = cast_.units[unit].casts;
    return std::any_of(all.begin(), all.end(), [&](const Cast& c) { return c.value == value; });
  }

  [[nodiscard]] std::int64_t result_elements(std::uint32_t u) const {
    std::int64_t most = 0;
    for (const std::uint32_t v : flow_.units[u].outputs)
      most = std::max(most, flow_.values[v].shape.empty() ? 0 : work::elements_of(flow_.values[v].shape));
    return most;
  }

  // Computed in half, then cast back to FP32: for a moment both are there.
  void add_half_copy(std::uint32_t u, const Block& b) {
    add(u, b.bytes / 2, b.allocated, b.allocated + 1, Kind::kTemporary, b.stage);
  }

  void resize(std::size_t i) {
    Block& b = c_.blocks[i];
    const std::uint32_t u = unit_[i];
    if (cast_.parameters == HalfParameters::kKept &&
        (u == kNone || b.kind == Kind::kGradient)) {  // gradients, the update's temporaries
      if (!b.workspace) b.bytes /= 2;
      return;
    }
    if (u == kNone || b.bytes < memory::kGrain) return;
    const AutocastUnit& a = cast_.units[u];
    const bool half = a.precision == Precision::kHalf;
    if (b.stage == Stage::kForward) {
      // Masks and indices stay. A product has none: what is as large as its result in bytes is a copy of an operand.
      const std::int64_t n = result_elements(u);
      const bool product = contains_any(flow_.units[u].name, {"mm", "linear", "matmul", "conv", "einsum", "attention"});
      if (half && (product || !(holds(b, n, 1) || holds(b, n, 8)))) b.bytes /= 2;
    } else if (b.kind == Kind::kGradient) {
      if (half && cast_.parameters == HalfParameters::kCast) add_half_copy(u, b);
    } else if (sums_[i] != 0) {
      if (a.sums_half) b.bytes /= 2;
    } else if (half) {
      const bool cast_back = std::any_of(a.casts.begin(), a.casts.end(), [&](const Cast& c) {
        return c.gradient && !c.weight && holds(b, c.elements, 4);
      });
      if (cast_back)
        add_half_copy(u, b);
      else
        b.bytes /= 2;
    } else if (a.reads_half && !flow_.units[u].inputs.empty() && holds(b, flow_.units[u].inputs.front().elements, 4)) {
      b.bytes /= 2;
    }
  }

  void halve_parameters() {
    c_.start_bytes -= (c_.parameter_bytes + c_.state_bytes) / 2;
    c_.parameter_bytes /= 2;
    c_.state_bytes /= 2;
  }

  void add_casts(std::uint32_t u) {
    const Unit& unit = flow_.units[u];
    const std::uint32_t back = backward_[u].last + 1;
    for (const Cast& c : cast_.units[u].casts) {
      const std::int64_t bytes = (c.weight ? c.elements : of_the_batch(c.elements)) * (c.to_float ? 4 : 2);
      // An operation that first brings its input into order keeps that copy, not the cast.
      bool kept = c.weight || (keeps_input(unit.name) && !keeps_own_copy(u, c.elements));
      std::uint32_t until = forward_[u].last + 1;
      if (!unit.computes) {  // an explicit cast: its result lives as long as someone needs it
        kept = false;
        for (const std::uint32_t v : unit.outputs) {
          for (const std::uint32_t reader : flow_.values[v].consumers) {
            kept = kept || keeps_input(flow_.units[reader].name);
            until = std::max(until, forward_[reader].last + 1);
          }
        }
      }
      add(u, bytes, forward_[u].first, kept ? back : until, kept ? Kind::kActivation : Kind::kTemporary,
          Stage::kForward);
    }
    for (const std::int64_t n : cast_.units[u].narrowed)
      add(u, 2 * of_the_batch(n), backward_[u].first, back, Kind::kTemporary, Stage::kBackward);
  }

  // Activations that a unit allocates in addition to its results and casts (which ask for empty_strided) are copies of its inputs.
  void find_own_copies() {
    own_copies_.resize(flow_.units.size());
    for (std::size_t i = 0; i < unit_.size(); ++i) {
      const Block& b = c_.blocks[i];
      if (unit_[i] == kNone || b.stage != Stage::kForward || b.kind != Kind::kActivation) continue;
      const std::vector<std::uint32_t>& outputs = flow_.units[unit_[i]].outputs;
      const bool result = std::any_of(outputs.begin(), outputs.end(), [&](auto v) { return block_of_[v] == i; });
      if (!result && flow_.trace->name(b.op) != "aten::empty_strided") own_copies_[unit_[i]].push_back(b.bytes);
    }
  }
  [[nodiscard]] bool keeps_own_copy(std::uint32_t u, std::int64_t elements) const {
    return std::any_of(own_copies_[u].begin(), own_copies_[u].end(),
                       [&](std::int64_t bytes) { return holds({.bytes = bytes}, elements, 2); });
  }

  const Autocast& cast_;
  std::vector<std::vector<std::int64_t>> own_copies_;  // by unit: bytes
};

class Fp8Memory : CurveRewriter {
 public:
  Fp8Memory(Model& m, const Dataflow& flow, const std::vector<Fp8Layer>& layers)
      : CurveRewriter(m, flow, {4, 2}), layers_(layers), converted_(flow.units.size(), 0) {
    for (const Fp8Layer& l : layers_) converted_[l.unit] = 1;
  }

  void run() {
    for (const Fp8Layer& l : layers_) convert(l);
    put_added();
  }

 private:
  // Copies autocast made inside the layer become the copies in FP8; where it made none, the layer makes them.
  void convert(const Fp8Layer& l) {
    const std::int64_t input = l.rows * l.inputs, weight = l.inputs * l.outputs, output = l.rows * l.outputs;
    const std::int64_t size = work::bytes_of(l.dtype);
    bool input_copied = false;
    bool weight_copied = false;
    for (std::size_t i = 0; i < unit_.size(); ++i) {
      Block& b = c_.blocks[i];
      if (unit_[i] != l.unit || b.stage != Stage::kForward || b.op == kNone) continue;
      if (flow_.trace->name(b.op) != "aten::empty_strided") continue;
      if (!input_copied && memory::could_hold(b, input * size) && b.kind == Kind::kActivation) {
        b.bytes = input;
        input_copied = true;
      } else if (!weight_copied && memory::could_hold(b, weight * size)) {
        b.bytes = weight;
        weight_copied = true;
      }
    }
    const Span forward = forward_[l.unit];
    const Span backward = backward_[l.unit];
    const auto keep = [&](std::int64_t bytes) {
      add(l.unit, bytes, forward.first, backward.last + 1, Kind::kActivation, Stage::kForward);
    };
    if (!input_copied) {
      release_input(l);
      keep(input);
    }
    if (!weight_copied) keep(weight);
    // While a tensor is converted its FP32 values are there twice, before and behind the factor.
    constexpr std::int64_t kTwice = 8;
    const auto moment = [&](std::int64_t elements, std::uint32_t at, Stage stage) {
      if (at > 0) add(l.unit, kTwice * elements, at - 1, at, Kind::kTemporary, stage, true);
    };
    moment(std::max(input, weight), forward.first, Stage::kForward);
    if (l.data_grad == nullptr && l.weight_grad == nullptr) return;
    moment(output, backward.first, Stage::kBackward);
    // The gradient in FP8, and the operands transposed.
    add(l.unit, 2 * output + std::max(input, weight), backward.first, backward.last + 1, Kind::kTemporary,
        Stage::kBackward, true);
  }

  void release_input(const Fp8Layer& l) {
    const Unit& unit = flow_.units[l.unit];
    if (unit.inputs.empty()) return;
    const std::uint32_t storage = flow_.values[unit.inputs.front().value].storage;
    if (block_of_[storage] == kNone || c_.blocks[block_of_[storage]].kind != Kind::kActivation) return;
    free_early(storage, [&](std::uint32_t u, std::uint32_t) { return converted_[u] != 0; });
  }

  const std::vector<Fp8Layer>& layers_;
  std::vector<char> converted_;  // by unit
};

}  // namespace

void autocast_memory(Model& model, const Dataflow& flow, const Autocast& cast) {
  AutocastMemory(model, flow, cast).run();
}

void fp8_memory(Model& model, const Dataflow& flow, const std::vector<Fp8Layer>& layers) {
  Fp8Memory(model, flow, layers).run();
}

namespace {

// Temporary buffers of a compiled program, and the largest one.
template <class Change>
Block* largest_of(memory::Curve& c, const Change& change) {
  Block* largest = nullptr;
  for (Block& b : c.blocks) {
    if (b.kind == Kind::kResident || b.of_parameters) continue;
    b.bytes = change(b.bytes);
    if (largest == nullptr || b.bytes > largest->bytes) largest = &b;
  }
  return largest;
}

}  // namespace

void half_program_memory(Model& m) {
  memory::Curve& c = *m.memory;
  Block* largest = largest_of(c, [](std::int64_t bytes) { return bytes / 2; });
  if (largest != nullptr) largest->bytes += c.parameter_bytes / 2;
  memory::recompute(c);
}

void full_program_memory(Model& m) {
  memory::Curve& c = *m.memory;
  Block* largest = largest_of(c, [](std::int64_t bytes) { return saturated_product(bytes, 2); });
  if (largest != nullptr) largest->bytes = std::max<std::int64_t>(0, largest->bytes - c.parameter_bytes);
  memory::recompute(c);
}

}  // namespace foretrace::whatif
