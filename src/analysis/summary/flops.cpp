// The FLOP of a step, and their time at the GPU's peak.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "analysis/summary/parts.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/work/work.hpp"
#include "whatif/model/op_chains.hpp"
#include "whatif/model/step_facts.hpp"

namespace foretrace::analysis {
namespace {

/// Of the GPU time of products: sizes may be missing for this much before the sum is not worth showing.
constexpr double kUnknownShare = 0.01;

// A causal mask halves what attention has to multiply; utilisation is by custom of the whole product, as flop_counter counts it.
double flop_of(const work::Work& w) {
  const auto* attention = std::get_if<work::Attention>(&w.kind);
  return attention != nullptr && attention->causal ? 2 * w.flops : w.flops;
}

std::optional<double> at_peak(double flop, const hardware::Device* gpu, work::Dtype dtype) {
  using work::Dtype;
  const bool rated = dtype != Dtype::kFp64 && dtype != Dtype::kInt && dtype != Dtype::kOther;
  const double tflops = gpu != nullptr && rated ? gpu->tflops(dtype) : 0;
  return tflops > 0 ? std::optional(flop / (tflops * 1e3)) : std::nullopt;
}

std::optional<double> over(std::optional<double> part, Ns time) {
  return part && *part > 0 && time > 0 ? std::optional(*part / static_cast<double>(time)) : std::nullopt;
}

std::optional<double> sum_of(std::optional<double> a, std::optional<double> b) {
  return a && b ? std::optional(*a + *b) : std::nullopt;
}

}  // namespace

std::optional<double> FlopCount::achieved_tflops(Ns time) const {
  const std::optional<double> per_ns = over(model, time);
  return per_ns ? std::optional(*per_ns / 1e3) : std::nullopt;
}
std::optional<double> FlopCount::mfu(Ns time) const { return over(model_at_peak, time); }
std::optional<double> FlopCount::hfu(Ns time) const { return over(sum_of(model_at_peak, recomputed_at_peak), time); }
std::optional<double> FlopCount::peak_tflops() const {
  return model_at_peak && *model_at_peak > 0 ? std::optional(model / *model_at_peak / 1e3) : std::nullopt;
}

FlopCount& operator+=(FlopCount& sum, const FlopCount& more) {
  sum.model += more.model;
  sum.recomputed += more.recomputed;
  sum.model_at_peak = sum_of(sum.model_at_peak, more.model_at_peak);
  sum.recomputed_at_peak = sum_of(sum.recomputed_at_peak, more.recomputed_at_peak);
  return sum;
}

TaskFlops task_flops(const SummaryInput& input, const std::vector<std::uint32_t>& gpu_tasks) {
  TaskFlops out;
  if (!input.own_events) {
    out.no_flops = "the file holds the graph of a step, not its operations";
    return out;
  }
  const graph::Graph& g = input.analysis->graph;
  const work::Works works = work::describe(input.trace, g);
  const Result<hardware::DeviceMatch> match = hardware::device_of(input.trace);
  const bool known = match && match->device.guessed_sigma == 0;
  if (!known) out.no_peak = match ? "the GPU's peak rates are not known" : match.error().message;
  const hardware::Device* gpu = known ? &match->device : nullptr;

  const whatif::OpChains chains(input.trace);
  const std::vector<std::uint32_t> again = whatif::recomputed_tasks(input.trace, g, chains);
  const std::unordered_set<std::uint32_t> recomputed(again.begin(), again.end());

  out.of_task.resize(g.size());
  std::vector<char> counted(works.size(), 0);
  std::set<std::int64_t> gpus;
  Ns products = 0, unknown = 0;
  for (const std::uint32_t t : gpu_tasks) {
    const std::uint32_t row = works.row_of(t);
    if (row == kNone || !is_product(works[row])) continue;
    const work::Work& w = works[row];
    products += g.cost[t];
    if (w.flops <= 0) unknown += g.cost[t];
    gpus.insert(g.lanes[g.lane[t]].device);
    if (counted[row] != 0 || w.flops <= 0) continue;
    counted[row] = 1;
    FlopCount& count = out.of_task[t];
    const double flop = flop_of(w);
    const bool second = recomputed.contains(t);
    (second ? count.recomputed : count.model) = flop;
    (second ? count.recomputed_at_peak : count.model_at_peak) = at_peak(flop, gpu, w.dtype);
    if (gpu != nullptr && !at_peak(flop, gpu, w.dtype)) {
      out.no_peak = fmt::format("no peak rate of {} is known for {}", to_string(w.dtype), gpu->name);
    }
  }
  out.gpus = std::max<std::size_t>(1, gpus.size());
  if (products == 0) {
    out.no_flops = "the step holds no matrix product, convolution or attention";
  } else if (static_cast<double>(unknown) > kUnknownShare * static_cast<double>(products)) {
    out.no_flops = fmt::format("the trace does not show the shapes of {:.0f} % of the products, by GPU time",
                               100 * static_cast<double>(unknown) / static_cast<double>(products));
  }
  if (!out.no_flops.empty()) out.of_task.clear();
  return out;
}

}  // namespace foretrace::analysis
