#include "whatif/rewrite/amp_memory.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "whatif/dataflow/unit_blocks.hpp"

namespace foretrace::whatif {

namespace {

using memory::Block;
using memory::Kind;
using memory::Stage;

constexpr std::int64_t kGrain = memory::kGrain;

class Rewriter {
 public:
  Rewriter(memory::Curve& curve, const Dataflow& flow, const Autocast& cast, double samples)
      : c_(curve), flow_(flow), cast_(cast), samples_(samples), added_(flow) {}

  void run() {
    at_ = unit_blocks(c_, flow_, [&](const Block& b, std::int64_t elements) { return holds(b, elements, 4); });
    const std::size_t before = c_.blocks.size();
    for (std::size_t i = 0; i < before; ++i) resize(i);
    for (const std::size_t i : at_.inner) {
      const auto& outputs = flow_.units[at_.unit[i]].outputs;
      if (std::none_of(outputs.begin(), outputs.end(), [&](std::uint32_t v) { return at_.block_of[v] == i; }))
        copied_.emplace_back(at_.unit[i], c_.blocks[i].bytes);
    }
    std::sort(copied_.begin(), copied_.end());
    shorten();
    for (std::uint32_t u = 0; u < flow_.units.size(); ++u) add_casts(u);
    added_.put_into(c_);
  }

 private:
  [[nodiscard]] std::int64_t scaled(std::int64_t elements) const {
    return std::llround(static_cast<double>(elements) * samples_);
  }
  // Is it a tensor of so many elements in the trace?
  [[nodiscard]] bool holds(const Block& b, std::int64_t elements, std::int64_t size) const {
    return elements > 0 && memory::could_hold(b, scaled(elements) * size);
  }

  [[nodiscard]] std::int64_t result_elements(std::uint32_t u) const {
    std::int64_t most = 0;
    for (const std::uint32_t v : flow_.units[u].outputs)
      most = std::max(most, flow_.values[v].shape.empty() ? 0 : work::elements_of(flow_.values[v].shape));
    return most;
  }

  void resize(std::size_t i) {
    Block& b = c_.blocks[i];
    const std::uint32_t u = at_.unit[i];
    if (u == kNone || b.bytes < kGrain) return;
    const AutocastUnit& a = cast_.units[u];
    if (b.stage == Stage::kForward) {
      if (a.precision != Precision::kHalf) return;
      const std::int64_t n = result_elements(u);
      // Masks and indices. A product has none: what is as large as its result in bytes is a copy of an operand.
      const bool product = contains_any(flow_.units[u].name, {"mm", "linear", "matmul", "conv", "einsum", "attention"});
      if (!product && n > 0 && (holds(b, n, 1) || holds(b, n, 8))) return;
      b.bytes /= 2;
      return;
    }
    if (b.kind == Kind::kGradient) {  // computed in half, then cast: both are there for a moment
      if (a.precision == Precision::kHalf)
        added_.add(u, b.bytes / 2, b.allocated, b.allocated + 1, Kind::kTemporary, b.stage);
      return;
    }
    if (at_.sums[i] != 0) {
      if (a.sums_half) b.bytes /= 2;
      return;
    }
    if (a.precision == Precision::kHalf) {
      const bool cast_back = std::any_of(a.casts.begin(), a.casts.end(), [&](const Cast& c) {
        return c.gradient && !c.weight && holds(b, c.elements, 4);
      });
      if (cast_back)
        added_.add(u, b.bytes / 2, b.allocated, b.allocated + 1, Kind::kTemporary, b.stage);
      else
        b.bytes /= 2;
    } else if (a.reads_half &&
               holds(b, flow_.units[u].inputs.empty() ? 0 : flow_.units[u].inputs.front().elements, 4)) {
      b.bytes /= 2;
    }
  }

  // A tensor that only matrix products kept is freed when the last operation has read it: they keep their cast copies.
  void shorten() {
    std::vector<std::vector<std::uint32_t>> sharing(flow_.values.size());
    for (std::uint32_t v = 0; v < flow_.values.size(); ++v) sharing[flow_.values[v].storage].push_back(v);
    for (std::uint32_t s = 0; s < flow_.values.size(); ++s) {
      if (at_.block_of[s] == kNone || flow_.values[s].producer == kNone) continue;
      Block& b = c_.blocks[at_.block_of[s]];
      if (b.kind != Kind::kActivation && b.kind != Kind::kTemporary) continue;
      bool kept = false;
      bool cast = false;
      std::uint32_t last = at_.forward[flow_.values[s].producer].last;
      for (const std::uint32_t v : sharing[s]) {
        const std::uint32_t by = flow_.values[v].producer;
        // A conversion that changed nothing made a view; now that it converts, its result is a tensor of its own.
        if (by != kNone && !flow_.units[by].computes && !cast_.units[by].casts.empty()) continue;
        if (by != kNone && flow_.units[by].computes && keeps_result(flow_.units[by].name)) kept = true;
        for (const std::uint32_t u : flow_.values[v].consumers) {
          last = std::max(last, at_.forward[u].last);
          const auto& casts = cast_.units[u].casts;
          const bool copied = std::any_of(casts.begin(), casts.end(), [&](const Cast& c) { return c.value == v; });
          cast = cast || copied;
          if (!copied && flow_.units[u].computes && keeps_input(flow_.units[u].name)) kept = true;
        }
      }
      if (kept || !cast || last >= b.freed) continue;
      b.freed = last + 1;
      b.kind = Kind::kTemporary;
    }
  }

  [[nodiscard]] bool copies(std::uint32_t u, std::int64_t elements) const {
    const auto [first, last] = std::equal_range(copied_.begin(), copied_.end(), std::pair(u, std::int64_t{0}),
                                                [](const auto& a, const auto& b) { return a.first < b.first; });
    return std::any_of(first, last, [&](const auto& c) {
      Block b;
      b.bytes = c.second;
      return holds(b, elements, 2);
    });
  }

  void add_casts(std::uint32_t u) {
    const AutocastUnit& a = cast_.units[u];
    const Unit& unit = flow_.units[u];
    const std::uint32_t here = at_.forward[u].first;
    const std::uint32_t back = at_.backward[u].last + 1;
    for (const Cast& c : a.casts) {
      const std::int64_t bytes = (c.weight ? c.elements : scaled(c.elements)) * (c.to_float ? 4 : 2);
      // An operation that first brings its input into order keeps that copy, not the cast.
      bool kept = c.weight || (keeps_input(unit.name) && !copies(u, c.elements));
      std::uint32_t until = at_.forward[u].last + 1;
      if (!unit.computes) {  // an explicit cast: its result lives as long as someone needs it
        kept = false;
        for (const std::uint32_t v : unit.outputs) {
          for (const std::uint32_t reader : flow_.values[v].consumers) {
            kept = kept || keeps_input(flow_.units[reader].name);
            until = std::max(until, at_.forward[reader].last + 1);
          }
        }
      }
      added_.add(u, bytes, here, kept ? back : until, kept ? Kind::kActivation : Kind::kTemporary, Stage::kForward);
      // The gradient of what was half is half again until its producer has used it.
      if (c.to_float && c.gradient) narrow_gradient(u, c.elements, c.value);
    }
    for (const std::int64_t n : a.narrowed)
      added_.add(u, 2 * scaled(n), at_.backward[u].first, back, Kind::kTemporary, Stage::kBackward);
  }

  void narrow_gradient(std::uint32_t u, std::int64_t elements, std::uint32_t value) {
    const std::uint32_t at = at_.backward[u].last;
    for (std::size_t i = c_.blocks.size(); i-- > 0;) {
      Block& b = c_.blocks[i];
      if (b.stage != Stage::kBackward || b.allocated > at || b.freed <= at + 1 || !holds(b, elements, 4)) continue;
      if (b.kind == Kind::kGradient) continue;
      added_.add(u, 2 * scaled(elements), at, b.freed, Kind::kTemporary, Stage::kBackward);
      b.freed = at + 1;
      return;
    }
    const std::uint32_t producer = flow_.values[value].producer;
    if (producer != kNone)
      added_.add(u, 2 * scaled(elements), at, at_.backward[producer].last, Kind::kTemporary, Stage::kBackward);
  }

  memory::Curve& c_;
  const Dataflow& flow_;
  const Autocast& cast_;
  double samples_;
  UnitBlocks at_;
  std::vector<std::pair<std::uint32_t, std::int64_t>> copied_;  // unit, bytes of a copy it keeps
  AddedBlocks added_;
};

}  // namespace

void autocast_memory(memory::Curve& curve, const Dataflow& flow, const Autocast& cast, double samples) {
  Rewriter(curve, flow, cast, samples).run();
}

}  // namespace foretrace::whatif
