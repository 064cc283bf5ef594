#include "whatif/rewrite/attentions.hpp"

#include <algorithm>

namespace foretrace::whatif {

namespace {

using work::Family;
using work::Work;

using work::Gemm;

const Gemm* batched_product(const Work& w) {
  const auto* gemm = std::get_if<Gemm>(&w.kind);
  return gemm != nullptr && gemm->batch > 1 && !w.backward ? gemm : nullptr;
}

class AttentionFinder {
 public:
  AttentionFinder(const Model& m, const std::vector<Row>& rows, const Dataflow& flow)
      : m_(m), rows_(rows), flow_(flow) {
    unit_.reserve(rows.size());
    for (const Row& r : rows) {
      const std::uint32_t e = m.works[r.work].op_event;
      unit_.push_back(e == kNone || r.phase != Phase::kForward ? kNone : flow.unit_of(e));
      if (e != kNone && r.phase == Phase::kBackward) has_gradient_.insert(flow.backward_of(e).unit);
    }
    has_gradient_.erase(kNone);
  }

  std::vector<Attention> run() {
    std::vector<Attention> found;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (work(i).family != Family::kSoftmax || rows_[i].phase != Phase::kForward) continue;
      const std::int64_t scores = work(i).elements;
      const std::size_t begin = product_before(i, scores);
      const std::size_t end = product_behind(i, scores);
      if (begin != kNoRow && end != kNoRow) found.push_back(between(begin, end, scores));
    }
    add_backward(found);
    return found;
  }

 private:
  static constexpr std::size_t kReach = 40;  // rows between an attention's first product and its softmax
  static constexpr std::size_t kNoRow = SIZE_MAX;
  [[nodiscard]] const Work& work(std::size_t row) const { return m_.works[rows_[row].work]; }
  [[nodiscard]] const Gemm* product(std::size_t row) const {
    return rows_[row].phase == Phase::kForward ? batched_product(work(row)) : nullptr;
  }

  // The product that makes the scores is the last of their size in front, the one that uses them the first behind.
  [[nodiscard]] std::size_t product_before(std::size_t softmax, std::int64_t scores) const {
    for (std::size_t back = 1; back <= softmax && back < kReach; ++back) {
      const std::size_t k = softmax - back;
      if (const Gemm* g = product(k); g != nullptr && g->batch * g->m * g->n == scores) return k;
    }
    return kNoRow;
  }
  [[nodiscard]] std::size_t product_behind(std::size_t softmax, std::int64_t scores) const {
    for (std::size_t k = softmax + 1; k < rows_.size() && k - softmax < kReach; ++k) {
      if (const Gemm* g = product(k); g != nullptr && g->batch * g->m * g->k == scores) return k;
    }
    return kNoRow;
  }

  [[nodiscard]] Attention between(std::size_t begin, std::size_t end, std::int64_t scores) const {
    Attention a;
    a.scores = scores;
    a.first = *product(begin);
    a.dtype = work(begin).dtype;
    a.first_unit = unit_[begin];
    a.last_unit = unit_[end];
    for (std::size_t k = begin; k <= end; ++k) {
      if (unit_[k] == kNone) continue;
      const Work& w = work(k);
      const bool its_product = k == begin || k == end;
      const bool on_scores = w.elements == scores && (w.family == Family::kSoftmax || w.family == Family::kCopy ||
                                                      w.family == Family::kElementwise);
      if (its_product || on_scores) a.units.insert(unit_[k]);
      const auto* pointwise = std::get_if<work::Pointwise>(&w.kind);
      a.dropout =
          a.dropout || (on_scores && pointwise != nullptr && pointwise->arithmetic == work::Arithmetic::kDropout);
    }
    a.causal = masked_causally(a);
    a.learned_bias = adds_learned_bias(a);
    add_copy_of_result(a, unit_[end]);
    add_views_of_operands(a, unit_[begin]);
    add_views_of_operands(a, unit_[end]);
    a.forward.push_back(&rows_[begin]);
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      if (k != begin && unit_[k] != kNone && a.units.contains(unit_[k])) a.forward.push_back(&rows_[k]);
    }
    return a;
  }

  // A mask over queries and keys alone, the same for every head: where the step draws a triangle of that size, or the mask does
  // not depend on the sample either, it hides the future. Fused kernels know this and skip it.
  [[nodiscard]] bool masked_causally(const Attention& a) const {
    if (a.first.m != a.first.n || a.first.m <= 1) return false;
    const std::int64_t n = a.first.m;
    const auto square = [n](const work::Shape& s) { return s.size() >= 2 && s.back() == n && s[s.size() - 2] == n; };
    bool masked = false;
    for (const std::uint32_t u : a.units) {
      const work::OpView view(*m_.trace, m_.trace->events.args[flow_.units[u].event]);
      for (const work::Argument& mask : view.arguments()) {
        if (!mask.tensor() || !square(mask.shape()) || mask.elements() >= a.scores) continue;
        const work::Shape& s = mask.shape();
        if (s.size() > 2 && s[s.size() - 3] != 1) continue;  // by head: a bias of positions
        if (mask.type == "bool" && mask.elements() == n * n) return true;
        masked = true;
      }
    }
    return masked && draws_triangle(n);
  }

  // A tensor by head, the same for every sample, that comes from something whose gradient the step computes.
  [[nodiscard]] bool adds_learned_bias(const Attention& a) const {
    for (const std::uint32_t u : a.units) {
      if (!flow_.units[u].name.starts_with("aten::add")) continue;
      for (const Input& in : flow_.units[u].inputs) {
        const work::Shape& s = flow_.values[in.value].shape;
        const bool square = s.size() >= 3 && s.back() == a.first.n && s[s.size() - 2] == a.first.m;
        if (square && s[s.size() - 3] != 1 && in.elements < a.scores && depends_on_parameters(in.value)) return true;
      }
    }
    return false;
  }

  [[nodiscard]] bool depends_on_parameters(std::uint32_t value) const {
    std::vector<std::uint32_t> open{value};
    std::set<std::uint32_t> seen;
    while (!open.empty()) {
      const std::uint32_t u = flow_.values[open.back()].producer;
      open.pop_back();
      if (u == kNone || !seen.insert(u).second) continue;
      if (has_gradient_.contains(u)) return true;
      for (const Input& in : flow_.units[u].inputs) open.push_back(in.value);
    }
    return false;
  }

  [[nodiscard]] bool draws_triangle(std::int64_t n) const {
    return std::any_of(flow_.units.begin(), flow_.units.end(), [&](const Unit& u) {
      const bool cut = u.name.starts_with("aten::tril") || u.name.starts_with("aten::triu");
      const bool compared =
          u.name == "aten::le" || u.name == "aten::lt" || u.name == "aten::ge" || u.name == "aten::gt";
      if (!cut && !compared) return false;
      const work::OpView view(*m_.trace, m_.trace->events.args[u.event]);
      std::int64_t rows = 1;
      std::int64_t columns = 1;
      for (const work::Argument& x : view.arguments()) {
        if (!x.tensor()) continue;
        if (compared && x.type != "long int" && x.type != "int") return false;
        if (!x.shape().empty()) columns = std::max(columns, x.shape().back());
        if (x.shape().size() > 1) rows = std::max(rows, x.shape()[x.shape().size() - 2]);
      }
      return rows == n && columns == n;
    });
  }

  // The fused kernel writes heads where the projection wants them: a copy that brought them together is not made.
  void add_copy_of_result(Attention& a, std::uint32_t last) const {
    if (last == kNone) return;
    std::vector<std::uint32_t> values = flow_.units[last].outputs;
    for (int views = 0; views < 4; ++views) {
      std::vector<std::uint32_t> next;
      for (const std::uint32_t v : values) {
        for (const std::uint32_t u : flow_.values[v].consumers) {
          const std::string_view name = flow_.units[u].name;
          if (!flow_.units[u].computes) {
            next.insert(next.end(), flow_.units[u].outputs.begin(), flow_.units[u].outputs.end());
          } else if (name == "aten::contiguous" || name == "aten::reshape" || name == "aten::clone" ||
                     name == "aten::flatten") {
            a.units.insert(u);
          }
        }
      }
      values = std::move(next);
    }
  }

  void add_views_of_operands(Attention& a, std::uint32_t product) const {
    if (product == kNone) return;
    for (const Input& in : flow_.units[product].inputs) {
      std::uint32_t u = flow_.values[in.value].producer;
      while (u != kNone && !flow_.units[u].computes && a.views.insert(u).second) {
        u = flow_.units[u].inputs.empty() ? kNone : flow_.values[flow_.units[u].inputs.front().value].producer;
      }
    }
  }

  [[nodiscard]] bool runs_fused(const Attention& a, std::uint32_t unit, const Work& w) const {
    if (a.units.contains(unit)) return true;
    // Parts of a common tensor are still put together.
    const auto* pointwise = std::get_if<work::Pointwise>(&w.kind);
    const bool puts_together = pointwise != nullptr && pointwise->tensors > 1;
    return a.views.contains(unit) && !puts_together && (w.family == Family::kCopy || w.family == Family::kMemory) &&
           !flow_.units[unit].name.starts_with("aten::split") && !flow_.units[unit].name.starts_with("aten::chunk");
  }

  void add_backward(std::vector<Attention>& found) const {
    for (const Row& r : rows_) {
      const std::uint32_t e = m_.works[r.work].op_event;
      if (r.phase != Phase::kBackward || e == kNone) continue;
      // Casts another what-if put there carry the operation they were made for.
      const std::uint32_t inserted = flow_.unit_of(e);
      const Dataflow::Backward b = flow_.backward_of(e);
      const std::uint32_t unit = inserted != kNone ? inserted : b.sums ? kNone : b.unit;
      for (Attention& a : found) {
        if (unit == kNone || !runs_fused(a, unit, m_.works[r.work])) continue;
        a.backward.push_back(&r);
        if (inserted == kNone && a.backward.size() > 1 &&
            flow_.unit_of(m_.works[a.backward.front()->work].op_event) != kNone)
          std::swap(a.backward.front(), a.backward.back());
      }
    }
  }

  const Model& m_;
  const std::vector<Row>& rows_;
  const Dataflow& flow_;
  std::vector<std::uint32_t> unit_;       // by row
  std::set<std::uint32_t> has_gradient_;  // units
};

}  // namespace

std::vector<Attention> find_attentions(const Model& model, const std::vector<Row>& rows, const Dataflow& flow) {
  return AttentionFinder(model, rows, flow).run();
}

}  // namespace foretrace::whatif
