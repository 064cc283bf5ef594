#include "whatif/rewrite/fp8_memory.hpp"

#include <algorithm>
#include <cmath>

#include "base/saturate.hpp"
#include "whatif/dataflow/unit_blocks.hpp"

namespace foretrace::whatif {

namespace {

using memory::Block;
using memory::Kind;
using memory::Stage;

class Rewriter {
 public:
  Rewriter(Model& m, const Dataflow& flow, const std::vector<Fp8Layer>& layers)
      : c_(*m.memory), flow_(flow), layers_(layers), samples_(m.pass_samples), added_(flow) {}

  void run() {
    at_ = unit_blocks(c_, flow_, [&](const Block& b, std::int64_t n) {
      return n > 0 && (holds(b, scaled(n), 4) || holds(b, scaled(n), 2));
    });
    converted_.assign(flow_.units.size(), 0);
    for (const Fp8Layer& l : layers_) converted_[l.unit] = 1;
    for (const Fp8Layer& l : layers_) keep_less(l);
    added_.put_into(c_);
  }

 private:
  [[nodiscard]] std::int64_t scaled(std::int64_t elements) const {
    return saturated(std::round(static_cast<double>(elements) * samples_));
  }
  [[nodiscard]] static bool holds(const Block& b, std::int64_t elements, std::int64_t size) {
    return elements > 0 && memory::could_hold(b, saturated_product(elements, size));
  }

  // Copies autocast made inside the layer become the copies in FP8; where it made none, the layer makes them.
  void keep_less(const Fp8Layer& l) {
    const std::int64_t input = l.rows * l.inputs, weight = l.inputs * l.outputs, output = l.rows * l.outputs;
    const std::int64_t size = work::bytes_of(l.dtype);
    bool input_copied = false;
    bool weight_copied = false;
    for (std::size_t i = 0; i < at_.unit.size(); ++i) {
      Block& b = c_.blocks[i];
      if (at_.unit[i] != l.unit || b.stage != Stage::kForward || b.op == kNone) continue;
      if (flow_.trace->name(b.op) != "aten::empty_strided") continue;
      if (!input_copied && holds(b, input, size) && b.kind == Kind::kActivation) {
        b.bytes = input;
        input_copied = true;
      } else if (!weight_copied && holds(b, weight, size)) {
        b.bytes = weight;
        weight_copied = true;
      }
    }
    const UnitBlocks::Span forward = at_.forward[l.unit];
    const UnitBlocks::Span backward = at_.backward[l.unit];
    if (!input_copied) {
      release_input(l);
      added_.add(l.unit, input, forward.first, backward.last + 1, Kind::kActivation, Stage::kForward);
    }
    if (!weight_copied)
      added_.add(l.unit, weight, forward.first, backward.last + 1, Kind::kActivation, Stage::kForward);
    // While a tensor is converted its FP32 values are there twice, before and behind the factor.
    constexpr std::int64_t kTwice = 8;
    const auto moment = [&](std::int64_t elements, std::uint32_t at, Stage stage) {
      if (at > 0) added_.add(l.unit, kTwice * elements, at - 1, at, Kind::kTemporary, stage, true);
    };
    moment(std::max(input, weight), forward.first, Stage::kForward);
    if (l.data_grad == nullptr && l.weight_grad == nullptr) return;
    moment(output, backward.first, Stage::kBackward);
    // The gradient in FP8, and the operands the other way round.
    added_.add(l.unit, 2 * output + std::max(input, weight), backward.first, backward.last + 1, Kind::kTemporary,
               Stage::kBackward, true);
  }

  // What nobody but converted layers keeps goes when the last reader of the forward pass is done.
  void release_input(const Fp8Layer& l) {
    const Unit& unit = flow_.units[l.unit];
    if (unit.inputs.empty()) return;
    const std::uint32_t storage = flow_.values[unit.inputs.front().value].storage;
    if (at_.block_of[storage] == kNone || flow_.values[storage].producer == kNone) return;
    Block& b = c_.blocks[at_.block_of[storage]];
    if (b.kind != Kind::kActivation) return;
    std::uint32_t last = at_.forward[flow_.values[storage].producer].last;
    for (std::uint32_t v = 0; v < flow_.values.size(); ++v) {
      const Value& value = flow_.values[v];
      if (value.storage != storage) continue;
      if (value.producer != kNone && flow_.units[value.producer].computes &&
          keeps_result(flow_.units[value.producer].name))
        return;
      for (const std::uint32_t u : value.consumers) {
        last = std::max(last, at_.forward[u].last);
        if (converted_[u] == 0 && flow_.units[u].computes && keeps_input(flow_.units[u].name)) return;
      }
    }
    b.freed = std::min(b.freed, last + 1);
    b.kind = Kind::kTemporary;
  }

  memory::Curve& c_;
  const Dataflow& flow_;
  const std::vector<Fp8Layer>& layers_;
  double samples_;
  UnitBlocks at_;
  std::vector<char> converted_;  // by unit
  AddedBlocks added_;
};

}  // namespace

void fp8_memory(Model& model, const Dataflow& flow, const std::vector<Fp8Layer>& layers) {
  Rewriter(model, flow, layers).run();
}

}  // namespace foretrace::whatif
