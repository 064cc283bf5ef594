#include <algorithm>
#include <cmath>

#include "whatif/catalogue/amp_memory.hpp"
#include "whatif/catalogue/autocast.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/catalogue/rows.hpp"
#include "whatif/catalogue/workspaces.hpp"

namespace foretrace::whatif {

namespace {

using hardware::Access;
using hardware::Dtype;
using hardware::Family;
using hardware::Work;

class Amp {
 public:
  Amp(Model& m, Draft& draft, Dtype dtype) : m_(m), draft_(draft), dtype_(dtype), flow_(forward_flow(m)) {}

  Status run() {
    const std::vector<Row> rows = rows_of(m_, draft_);
    const std::size_t works_before = m_.works.size();
    for (const Row& row : rows) {
      const Dtype was = m_.works[row.work].dtype;
      if (m_.works[row.work].family == Family::kGemm && (was == Dtype::kFp16 || was == Dtype::kBf16))
        return fail(ErrorCode::kDeclined, "the step already runs matrix products in half precision");
    }
    cast_ = autocast(flow_);
    // On one stream: behind it, nothing of the backward pass is left that a wait for it could hold up.
    const std::uint32_t stream = main_stream(m_.graph);
    for (std::uint32_t t = m_.graph.lanes[stream].begin; t < m_.graph.lanes[stream].end; ++t) {
      if (m_.graph.phase[t] == Phase::kBackward && !draft_.removed(t)) last_backward_ = t;
    }
    first_.assign(flow_.units.size(), Graph::kNoWork);
    last_backward_of_.assign(flow_.units.size(), Graph::kNoWork);
    std::size_t halves = 0;
    for (const Row& row : rows) halves += change(row) ? 1u : 0u;
    if (halves == 0)
      return fail(ErrorCode::kDeclined, "no operation of this step runs in half precision under autocast");
    insert_casts();
    if (dtype_ == Dtype::kFp16) insert_scaler();
    if (m_.memory) autocast_memory(*m_.memory, flow_, cast_, m_.pass_samples);
    resize_workspaces(m_, works_before);
    return {};
  }

 private:
  // Gives a row its new cost; returns whether it is half now.
  bool change(const Row& row) {
    const std::uint32_t event = m_.works[row.work].op_event;
    if (event == 0xFFFF'FFFFu || (row.phase != Phase::kForward && row.phase != Phase::kBackward)) return false;
    const std::uint32_t unit = flow_.unit_of(event);
    if (unit != kNothing && row.phase == Phase::kBackward) {  // put there by another what-if
      last_backward_of_[unit] = row.tasks.back();
      return retime(row, cast_.units[unit].precision);
    }
    if (unit != kNothing) {
      if (fused_away(row, unit)) return false;
      if (first_[unit] == Graph::kNoWork) first_[unit] = row.tasks.front();
      return retime(row, cast_.units[unit].precision);
    }
    const Dataflow::Backward b = flow_.backward_of(event);
    // Without sequence numbers a product's gradient is still known to be one.
    if (b.unit == kNothing) return row.phase == Phase::kBackward && is_product(row) && retime(row, Precision::kHalf);
    if (b.node.starts_with("AccumulateGrad")) return false;
    if (!b.sums && fused_away(row, b.unit)) return false;
    last_backward_of_[b.unit] = row.tasks.back();
    const AutocastUnit& a = cast_.units[b.unit];
    // Gradients that meet are added up in the type of the tensor they belong to; a sum over broadcast dimensions is the
    // operation's own.
    if (b.sums && m_.works[row.work].family != Family::kReduction) return a.sums_half && retime(row, Precision::kHalf);
    // Half and FP32 together compute their gradients in FP32 as before.
    return a.precision == Precision::kHalf && retime(row, Precision::kHalf);
  }

  [[nodiscard]] bool is_product(const Row& row) const {
    const Work& w = m_.works[row.work];
    return w.family == Family::kGemm || w.is_conv() || w.family == Family::kRnn || w.family == Family::kAttention;
  }

  // In half precision attention runs in cuDNN's kernels, which take operands as they lie and need nothing around them.
  bool fused_away(const Row& row, std::uint32_t unit) {
    if (flow_.units[unit].name != "aten::scaled_dot_product_attention") return false;
    if (m_.works[row.work].family == Family::kAttention) return false;
    Selection gone(row.tasks);
    std::sort(gone.begin(), gone.end());
    draft_.remove(gone, Draft::kWithLaunch);
    return true;
  }

  bool retime(const Row& row, Precision precision) {
    const Work work = m_.works[row.work];
    if (precision == Precision::kFloat) return false;
    const bool copy = work.family == Family::kMemory && !work.host && precision == Precision::kHalf;
    if (work.dtype != Dtype::kFp32 && !copy) return false;
    Work becomes = with_dtype(work, dtype_);
    if (copy) {  // made by the driver, which knows bytes only
      becomes = work;
      for (double* bytes : {&becomes.bytes_read, &becomes.bytes_written, &becomes.fixed_read, &becomes.fixed_written})
        *bytes /= 2;
      becomes.elements /= 2;
    }
    if (precision == Precision::kMixed) {
      // One operand in two is half: fewer bytes, but no vectorised loads.
      becomes = work;
      const bool even = work.access == Access::kContiguous || work.access == Access::kMixed;
      becomes.access = even ? Access::kMixed : Access::kMixedStrided;
      becomes.bytes_read = work.fixed_read + 0.75 * (work.bytes_read - work.fixed_read);
    }
    const hardware::Cost cost = rescale_row(m_, row, becomes);
    if (!cost.known) return false;
    set_row(m_, draft_, row, cost.ns, becomes, cost.origin);
    return precision == Precision::kHalf;
  }

  struct Conversion {
    std::int64_t elements;
    bool to_float, weight;
    std::uint32_t event;  // the operation it is made for
  };

  void insert_one(std::uint32_t after_gpu, std::uint32_t after_cpu, const Conversion& c, Phase phase,
                  graph::LayerId layer) {
    Work work = c.to_float ? cast_work(c.elements, dtype_, Dtype::kFp32) : cast_work(c.elements, Dtype::kFp32, dtype_);
    work.of_parameters = c.weight;
    work.op_event = c.event;
    const hardware::Cost cost = predict(work, m_.device);
    if (!cost.known) return;
    m_.works.push_back(work);
    const auto p = static_cast<std::size_t>(phase == Phase::kForward ? CpuPhase::kForward : CpuPhase::kBackward);
    draft_.insert({.name = "cast",
                   .cost = static_cast<Ns>(cost.ns),
                   .phase = phase,
                   .layer = layer,
                   .after_gpu = after_gpu,
                   .after_cpu = after_cpu,
                   .cpu_cost = m_.launches.cpu_per_launch[p],
                   .work = static_cast<std::uint32_t>(m_.works.size() - 1)});
  }

  // In front of a task and its launch.
  void insert_before(std::uint32_t task, const Conversion& c, Phase phase) {
    const Graph& g = m_.graph;
    if (!g.launch[task].valid()) return;
    const std::uint32_t call = g.launch[task].value;
    insert_one(task > g.lanes[g.lane[task]].begin ? task - 1 : task,
               call > g.lanes[g.lane[call]].begin ? call - 1 : call, c, phase, g.layer[task]);
  }
  void insert_behind(std::uint32_t task, const Conversion& c, Phase phase) {
    const Graph& g = m_.graph;
    if (g.launch[task].valid()) insert_one(task, g.launch[task].value, c, phase, g.layer[task]);
  }

  // Casts stand in front of their operation, and behind its backward pass the other way round.
  void insert_casts() {
    // Operations without GPU work of their own borrow the place of the next one.
    std::uint32_t first = Graph::kNoWork;
    std::uint32_t back = last_backward_;
    std::vector<std::uint32_t> first_at(first_.size()), back_at(first_.size());
    for (std::size_t u = first_.size(); u-- > 0;) {
      if (first_[u] != Graph::kNoWork) first = first_[u];
      first_at[u] = first;
    }
    for (std::size_t u = 0; u < first_.size(); ++u) {
      if (last_backward_of_[u] != Graph::kNoWork) back = last_backward_of_[u];
      back_at[u] = last_backward_of_[u] != Graph::kNoWork ? back : Graph::kNoWork;
    }
    for (std::size_t u = first_.size(); u-- > 0;) {
      if (back_at[u] == Graph::kNoWork) back_at[u] = u + 1 < first_.size() ? back_at[u + 1] : last_backward_;
    }
    for (std::size_t u = 0; u < cast_.units.size(); ++u) {
      const AutocastUnit& a = cast_.units[u];
      const std::uint32_t event = flow_.units[u].event;
      for (const Cast& c : a.casts) {
        // An operation whose work another what-if took away casts nothing.
        if (c.elements <= 0 || (flow_.units[u].computes && first_[u] == Graph::kNoWork)) continue;
        const std::int64_t elements = c.weight ? c.elements : samples(c.elements);
        if (first_at[u] != Graph::kNoWork)
          insert_before(first_at[u], {elements, c.to_float, c.weight, event}, Phase::kForward);
        if (c.gradient && back_at[u] != Graph::kNoWork)
          insert_behind(back_at[u], {elements, !c.to_float, c.weight, event}, Phase::kBackward);
      }
      for (const std::int64_t n : a.narrowed) {
        if (back_at[u] != Graph::kNoWork)
          insert_behind(back_at[u], {samples(n), false, false, event}, Phase::kBackward);
      }
    }
  }

  [[nodiscard]] std::int64_t samples(std::int64_t elements) const {
    return std::llround(static_cast<double>(elements) * m_.pass_samples);
  }

  // GradScaler: gradients are unscaled and checked, and the CPU reads the result before it may update.
  void insert_scaler() {
    const Graph& g = m_.graph;
    std::uint32_t join = Graph::kNoWork;
    for (std::uint32_t t = g.lanes[g.main_lane].begin; t < g.lanes[g.main_lane].end; ++t) {
      if (g.kind[t] == TaskKind::kWait && !g.event[t].valid()) join = t;
    }
    if (join == Graph::kNoWork || last_backward_ == Graph::kNoWork) {
      m_.not_modelled.emplace_back("the gradient scaler's synchronisation");
      return;
    }
    const Work work =
        hardware::optimizer_work(m_.parameter_elements, 4, 4, std::max<std::int64_t>(2, m_.parameter_tensors));
    const hardware::Cost cost = predict(work, m_.device);
    const double launches = std::max({1.0, std::ceil(static_cast<double>(m_.parameter_tensors) / 110),
                                      std::ceil(static_cast<double>(m_.parameter_elements) / (320 * 65536.0))});
    const Ns launch = m_.launches.cpu_per_launch[static_cast<std::size_t>(CpuPhase::kForward)];
    std::uint32_t cpu = join;
    std::uint32_t gpu = last_backward_;
    for (int i = 0; i < static_cast<int>(launches); ++i) {
      gpu = draft_.insert({.name = "unscale and check gradients",
                           .cost = static_cast<Ns>(cost.ns / launches),
                           .phase = Phase::kOptimizer,
                           .after_gpu = gpu,
                           .after_cpu = cpu,
                           .cpu_cost = launch});
      cpu = gpu - 1;
    }
    const std::uint32_t wait = draft_.insert_wait(cpu, "found_inf.item()");
    constexpr Ns kReturn = 15'000;  // a copy of one number to the host, and the call's return
    draft_.depend(gpu, wait, kReturn, DependencyKind::kSync);
  }

  Model& m_;
  Draft& draft_;
  Dtype dtype_;
  Dataflow flow_;
  Autocast cast_;
  std::vector<std::uint32_t> first_, last_backward_of_;  // GPU tasks by unit
  std::uint32_t last_backward_ = Graph::kNoWork;
};

Status apply_amp(Model& m, Draft& draft, const Parameters& parameters) {
  const bool bf16 = parameters.text("dtype") == "bf16";
  if ((bf16 ? m.device.tflops_bf16 : m.device.tflops_fp16) <= 0) {
    return fail(ErrorCode::kDeclined, "this GPU has no tensor cores for that type");
  }
  return Amp(m, draft, bf16 ? Dtype::kBf16 : Dtype::kFp16).run();
}

}  // namespace

WhatIf amp_whatif() {
  return {.name = "amp",
          .about = "mixed precision: autocast, and a gradient scaler for fp16",
          .parameters = {{"dtype", "the half type", "fp16", {"fp16", "bf16"}}},
          .assumes = "torch.autocast's lists; parameters and optimizer stay FP32",
          .source = "Micikevicius et al. 2018; torch.autocast; Daydream section 5",
          .not_modelled = {},
          .needs = "shapes",
          .code = "with torch.autocast('cuda', dtype=torch.float16): …  # and torch.amp.GradScaler",
          .effort = Effort::kFewLines,
          .stage = Stage::kPrecision,
          .advise = {"amp:dtype=bf16", "amp"},
          .validated = true,
          .apply = apply_amp};
}

}  // namespace foretrace::whatif
