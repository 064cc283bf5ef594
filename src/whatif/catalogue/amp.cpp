#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "whatif/catalogue/autocast.hpp"
#include "whatif/catalogue/catalogue.hpp"

namespace foretrace::whatif {

namespace {

using hardware::Dtype;

// A vectorised kernel loses its wide loads when operands differ in type: 1.8 to 2.5 TB/s instead of 4.2 on an H200.
constexpr double kMixedSlowdown = 1.5;

class Amp {
 public:
  Amp(Model& m, Draft& draft, Dtype dtype) : m_(m), draft_(draft), dtype_(dtype) {}

  Status run() {
    const std::vector<Row> rows = rows_of(m_, draft_);
    for (const Row& row : rows) {
      if (m_.works[row.work].family == hardware::Family::kGemm &&
          (m_.works[row.work].dtype == Dtype::kFp16 || m_.works[row.work].dtype == Dtype::kBf16)) {
        return fail(ErrorCode::kDeclined, "the step already runs matrix products in half precision");
      }
    }
    const std::vector<AutocastRow> casts = autocast(m_, rows);
    index_backward(rows);
    std::size_t halves = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      halves += retime(rows[i], casts[i].precision) ? 1u : 0u;
      for (const std::int64_t n : casts[i].activation_casts) insert_casts(rows[i], n);
      for (const std::int64_t n : casts[i].weight_casts) insert_casts(rows[i], n);
    }
    if (halves == 0)
      return fail(ErrorCode::kDeclined, "no operation of this step runs in half precision under autocast");
    if (dtype_ == Dtype::kFp16) insert_scaler();
    m_.memory.reset();
    m_.not_modelled.push_back("memory under mixed precision");
    return {};
  }

 private:
  bool retime(const Row& row, Precision precision) {
    if (precision == Precision::kFloat) return false;
    const hardware::Work work = m_.works[row.work];
    hardware::Work becomes = with_dtype(work, dtype_);
    if (precision == Precision::kMixed) {
      set_row(m_, draft_, row, static_cast<double>(row.time) * kMixedSlowdown, work, graph::Origin::kModelled);
      return false;
    }
    const hardware::Cost cost = rescale(static_cast<double>(row.time), work, m_.device, becomes, m_.device);
    if (!cost.known) return false;
    set_row(m_, draft_, row, cost.ns, becomes, cost.origin);
    return true;
  }

  double cast_time(std::int64_t elements) {
    hardware::Work cast;
    cast.family = hardware::Family::kCopy;
    cast.access = hardware::Access::kMixed;
    cast.elements = elements;
    cast.dtype = Dtype::kFp32;
    cast.out_dtype = dtype_;
    cast.bytes_read = 4.0 * static_cast<double>(elements);
    cast.bytes_written = 2.0 * static_cast<double>(elements);
    const hardware::Cost cost = predict(cast, m_.device);
    if (cost.known) return cost.ns;
    return 1800 + 6.0 * static_cast<double>(elements) / (m_.device.bandwidth_gbs * 0.8);
  }

  void index_backward(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      if (row.phase != Phase::kBackward || row.tasks.empty()) continue;
      last_backward_ = row.tasks.back();
      const graph::LayerId layer = m_.graph.layer[row.tasks.front()];
      if (layer.valid()) backward_of_.try_emplace(layer.value, row.tasks.front());
    }
  }

  void insert_one(std::uint32_t before, std::int64_t elements, Phase phase) {
    const Graph& g = m_.graph;
    if (!g.launch[before].valid()) return;
    const std::uint32_t call = g.launch[before].value;
    const std::uint32_t gpu = before > g.lanes[g.lane[before]].begin ? before - 1 : before;
    const std::uint32_t cpu = call > g.lanes[g.lane[call]].begin ? call - 1 : call;
    const std::size_t p = static_cast<std::size_t>(phase == Phase::kForward ? CpuPhase::kForward : CpuPhase::kBackward);
    hardware::Work work;
    work.family = hardware::Family::kCopy;
    work.elements = elements;
    m_.works.push_back(work);
    draft_.insert({.name = "cast",
                   .cost = static_cast<Ns>(cast_time(elements)),
                   .phase = phase,
                   .layer = g.layer[before],
                   .after_gpu = gpu,
                   .after_cpu = cpu,
                   .cpu_cost = m_.launches.cpu_per_launch[p],
                   .work = static_cast<std::uint32_t>(m_.works.size() - 1)});
  }

  // In front of the operation, and back again in its backward pass.
  void insert_casts(const Row& row, std::int64_t elements) {
    insert_one(row.tasks.front(), elements, Phase::kForward);
    const graph::LayerId layer = m_.graph.layer[row.tasks.front()];
    const auto it = layer.valid() ? backward_of_.find(layer.value) : backward_of_.end();
    const std::uint32_t back = it == backward_of_.end() ? last_backward_ : it->second;
    if (back != Graph::kNoWork) insert_one(back, elements, Phase::kBackward);
  }

  // GradScaler: gradients are unscaled and checked, and the CPU reads the result before it may update.
  void insert_scaler() {
    const Graph& g = m_.graph;
    std::uint32_t join = Graph::kNoWork;
    for (std::uint32_t t = g.lanes[g.main_lane].begin; t < g.lanes[g.main_lane].end; ++t) {
      if (g.kind[t] == TaskKind::kWait && !g.event[t].valid()) join = t;
    }
    if (join == Graph::kNoWork || last_backward_ == Graph::kNoWork) {
      m_.not_modelled.push_back("the gradient scaler's synchronisation");
      return;
    }
    const double bytes = 8.0 * static_cast<double>(m_.parameter_elements);
    const double launches = std::max(1.0, std::ceil(static_cast<double>(m_.parameter_tensors) / 110));
    const Ns launch = m_.launches.cpu_per_launch[static_cast<std::size_t>(CpuPhase::kForward)];
    std::uint32_t cpu = join;
    std::uint32_t gpu = last_backward_;
    for (int i = 0; i < static_cast<int>(launches); ++i) {
      gpu = draft_.insert({.name = "unscale and check gradients",
                           .cost = static_cast<Ns>(bytes / launches / (m_.device.bandwidth_gbs * 0.72)),
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
  std::unordered_map<std::uint32_t, std::uint32_t> backward_of_;
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
