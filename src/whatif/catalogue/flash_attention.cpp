#include <algorithm>
#include <set>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/catalogue/dataflow.hpp"
#include "whatif/catalogue/rows.hpp"

namespace foretrace::whatif {

namespace {

using hardware::Family;
using hardware::Work;

/// One attention of the step: two batched products around a softmax, and what is done to the scores between them.
struct Attention {
  std::vector<const Row*> forward, backward;
  std::set<std::uint32_t> units;  ///< of the data flow: all of it runs in the fused kernel
  std::set<std::uint32_t> views;  ///< that lead to its operands: their gradients arrive as they are wanted, uncopied
  Work first;                     ///< queries x keys
  std::int64_t scores = 0;        ///< elements
  std::uint32_t first_unit = kNothing, last_unit = kNothing;  ///< the two products
  bool dropout = false, causal = false;
};

bool is_batched_product(const Work& w) { return w.family == Family::kGemm && w.batch > 1 && !w.backward; }

class Finder {
 public:
  Finder(const Model& m, const std::vector<Row>& rows, const Dataflow& flow) : m_(m), rows_(rows), flow_(flow) {
    unit_.reserve(rows.size());
    for (const Row& r : rows) {
      const std::uint32_t e = m.works[r.work].op_event;
      unit_.push_back(e == kNothing || r.phase != Phase::kForward ? kNothing : flow.unit_of(e));
    }
  }

  std::vector<Attention> run() {
    std::vector<Attention> found;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const Work& softmax = work(i);
      if (softmax.family != Family::kSoftmax || rows_[i].phase != Phase::kForward) continue;
      Attention a;
      a.scores = softmax.elements;
      // The product that makes the scores is the last of their size in front, the one that uses them the first behind.
      std::size_t begin = rows_.size(), end = rows_.size();
      for (std::size_t k = i; k-- > 0 && begin == rows_.size() && i - k < kReach;) {
        const Work& w = work(k);
        if (is_batched_product(w) && rows_[k].phase == Phase::kForward && w.batch * w.m * w.n == a.scores) begin = k;
      }
      for (std::size_t k = i + 1; k < rows_.size() && end == rows_.size() && k - i < kReach; ++k) {
        const Work& w = work(k);
        if (is_batched_product(w) && rows_[k].phase == Phase::kForward && w.batch * w.m * w.k == a.scores) end = k;
      }
      if (begin == rows_.size() || end == rows_.size()) continue;
      a.first = work(begin);
      a.first_unit = unit_[begin];
      a.last_unit = unit_[end];
      for (std::size_t k = begin; k <= end; ++k) {
        if (unit_[k] == kNothing) continue;
        const Work& w = work(k);
        const bool product = k == begin || k == end;
        const bool on_scores = w.elements == a.scores && (w.family == Family::kSoftmax || w.family == Family::kCopy ||
                                                          w.family == Family::kElementwise);
        if (product || on_scores) a.units.insert(unit_[k]);
        a.dropout = a.dropout || (on_scores && w.arithmetic == hardware::Arithmetic::kDropout);
      }
      a.causal = masked_causally(a);
      add_copy_of_result(a, unit_[end]);
      add_views_of_operands(a, unit_[begin]);
      add_views_of_operands(a, unit_[end]);
      a.forward.push_back(&rows_[begin]);
      for (std::size_t k = 0; k < rows_.size(); ++k) {
        if (k != begin && unit_[k] != kNothing && a.units.contains(unit_[k])) a.forward.push_back(&rows_[k]);
      }
      found.push_back(std::move(a));
    }
    add_backward(found);
    return found;
  }

 private:
  static constexpr std::size_t kReach = 40;  // rows between an attention's first product and its softmax
  [[nodiscard]] const Work& work(std::size_t row) const { return m_.works[rows_[row].work]; }

  // A mask over queries and keys alone, the same for every head: where the step draws a triangle of that size, or the mask does
  // not depend on the sample either, it hides the future. Fused kernels are told so and skip it.
  [[nodiscard]] bool masked_causally(const Attention& a) const {
    if (a.first.m != a.first.n || a.first.m <= 1) return false;
    const std::int64_t n = a.first.m;
    const auto square = [n](const hardware::Shape& s) {
      return s.size() >= 2 && s.back() == n && s[s.size() - 2] == n;
    };
    bool masked = false;
    for (const std::uint32_t u : a.units) {
      const hardware::OpView view(*m_.trace, m_.trace->events.args[flow_.units[u].event]);
      for (const hardware::Argument& mask : view.arguments()) {
        if (!mask.tensor() || !square(mask.shape()) || mask.elements() >= a.scores) continue;
        const hardware::Shape& s = mask.shape();
        if (s.size() > 2 && s[s.size() - 3] != 1) continue;  // by head: a bias of positions
        if (mask.type == "bool" && mask.elements() == n * n) return true;
        masked = true;
      }
    }
    return masked && draws_triangle(n);
  }

  [[nodiscard]] bool draws_triangle(std::int64_t n) const {
    return std::any_of(flow_.units.begin(), flow_.units.end(), [&](const Unit& u) {
      const bool cut = u.name.starts_with("aten::tril") || u.name.starts_with("aten::triu");
      const bool compared =
          u.name == "aten::le" || u.name == "aten::lt" || u.name == "aten::ge" || u.name == "aten::gt";
      if (!cut && !compared) return false;
      const hardware::OpView view(*m_.trace, m_.trace->events.args[u.event]);
      std::int64_t rows = 1;
      std::int64_t columns = 1;
      for (const hardware::Argument& x : view.arguments()) {
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
    if (last == kNothing) return;
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
    if (product == kNothing) return;
    for (const Input& in : flow_.units[product].inputs) {
      std::uint32_t u = flow_.values[in.value].producer;
      while (u != kNothing && !flow_.units[u].computes && a.views.insert(u).second) {
        u = flow_.units[u].inputs.empty() ? kNothing : flow_.values[flow_.units[u].inputs.front().value].producer;
      }
    }
  }

  [[nodiscard]] bool runs_fused(const Attention& a, std::uint32_t unit, const Work& w) const {
    if (a.units.contains(unit)) return true;
    // Parts of a common tensor are still put together.
    return a.views.contains(unit) && w.tensors <= 1 && (w.family == Family::kCopy || w.family == Family::kMemory) &&
           !flow_.units[unit].name.starts_with("aten::split") && !flow_.units[unit].name.starts_with("aten::chunk");
  }

  void add_backward(std::vector<Attention>& found) const {
    for (const Row& r : rows_) {
      const std::uint32_t e = m_.works[r.work].op_event;
      if (r.phase != Phase::kBackward || e == kNothing) continue;
      // Casts another what-if put there carry the operation they were made for.
      const std::uint32_t inserted = flow_.unit_of(e);
      const Dataflow::Backward b = flow_.backward_of(e);
      const std::uint32_t unit = inserted != kNothing ? inserted : b.sums ? kNothing : b.unit;
      for (Attention& a : found) {
        if (unit == kNothing || !runs_fused(a, unit, m_.works[r.work])) continue;
        a.backward.push_back(&r);
        if (inserted == kNothing && a.backward.size() > 1 &&
            flow_.unit_of(m_.works[a.backward.front()->work].op_event) != kNothing)
          std::swap(a.backward.front(), a.backward.back());
      }
    }
  }

  const Model& m_;
  const std::vector<Row>& rows_;
  const Dataflow& flow_;
  std::vector<std::uint32_t> unit_;  // by row
};

void replace(Model& m, Draft& draft, const std::vector<const Row*>& rows, const Work& attention, Phase phase,
             int kernels) {
  if (rows.empty()) return;
  Selection gone;
  for (const Row* r : rows) gone.insert(gone.end(), r->tasks.begin(), r->tasks.end());
  std::sort(gone.begin(), gone.end());
  const Graph& g = m.graph;
  const std::uint32_t first = rows.front()->tasks.front();
  if (!g.launch[first].valid()) return;
  const std::uint32_t call = g.launch[first].value;
  draft.remove(gone, Draft::kWithLaunch);
  const hardware::Cost cost = predict(attention, m.device);
  m.works.push_back(attention);
  const auto work = static_cast<std::uint32_t>(m.works.size() - 1);
  std::uint32_t gpu = first > g.lanes[g.lane[first]].begin ? first - 1 : first;
  std::uint32_t cpu = call > g.lanes[g.lane[call]].begin ? call - 1 : call;
  const std::size_t p = static_cast<std::size_t>(phase == Phase::kForward ? CpuPhase::kForward : CpuPhase::kBackward);
  for (int i = 0; i < kernels; ++i) {
    gpu = draft.insert({.name = "fused attention",
                        .cost = static_cast<Ns>(cost.ns / kernels),
                        .phase = phase,
                        .layer = g.layer[first],
                        .after_gpu = gpu,
                        .after_cpu = cpu,
                        .cpu_cost = m.launches.cpu_per_launch[p],
                        .work = work,
                        .origin = cost.origin});
    cpu = gpu - 1;
  }
}

// Scores, what is made of them and their masks are no longer allocated; queries, keys, values and the result still are.
void forget_scores(memory::Curve& curve, const Dataflow& flow, const std::vector<Attention>& all) {
  for (memory::Block& b : curve.blocks) {
    if (b.op == UINT32_MAX || b.allocated == 0) continue;
    std::uint32_t unit = flow.unit_of(b.op);
    if (unit == kNothing) unit = flow.backward_of(b.op).unit;
    if (unit == kNothing) continue;
    for (const Attention& a : all) {
      if (!a.units.contains(unit)) continue;
      const bool half = a.first.dtype == hardware::Dtype::kFp16 || a.first.dtype == hardware::Dtype::kBf16;
      const bool product = unit == a.first_unit || unit == a.last_unit;
      const bool gone = memory::could_hold(b, a.scores * 4) || (half && memory::could_hold(b, a.scores * 2)) ||
                        (!product && memory::could_hold(b, a.scores));
      if (gone) b.bytes = 0;
    }
  }
}

Status apply_flash_attention(Model& m, Draft& draft, const Parameters&) {
  const std::vector<Row> rows = rows_of(m, draft);
  const Dataflow flow = forward_flow(m);
  const std::vector<Attention> all = Finder(m, rows, flow).run();
  if (all.empty()) return fail(ErrorCode::kDeclined, "no attention is computed from batched products and a softmax");
  for (const Attention& a : all) {
    const hardware::Dtype dtype = a.first.dtype == hardware::Dtype::kTf32 ? hardware::Dtype::kFp32 : a.first.dtype;
    Work forward =
        hardware::attention_work(a.first.batch, 1, a.first.m, a.first.n, a.first.k, dtype, false, a.causal, a.dropout);
    Work backward =
        hardware::attention_work(a.first.batch, 1, a.first.m, a.first.n, a.first.k, dtype, true, a.causal, a.dropout);
    if (a.first_unit != kNothing) forward.op_event = backward.op_event = flow.units[a.first_unit].event;
    if (!predict(forward, m.device).known)
      return fail(ErrorCode::kDeclined, "this shape of attention is outside what the models cover");
    replace(m, draft, a.forward, forward, Phase::kForward, 1);
    replace(m, draft, a.backward, backward, Phase::kBackward, 3);
  }
  if (m.memory) forget_scores(*m.memory, flow, all);
  return {};
}

}  // namespace

WhatIf flash_attention_whatif() {
  return {.name = "flash-attention",
          .about = "attention runs as one fused kernel that never writes its scores",
          .parameters = {},
          .assumes = "batched products around a softmax; no other use of the scores",
          .source = "Dao et al. 2022; torch scaled_dot_product_attention",
          .not_modelled = {},
          .needs = "shapes",
          .code = "F.scaled_dot_product_attention(q, k, v)",
          .effort = Effort::kFewLines,
          .stage = Stage::kKernels,
          .advise = {"flash-attention"},
          .validated = true,
          .apply = apply_flash_attention};
}

}  // namespace foretrace::whatif
