#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <span>
#include <vector>

#include "foretrace/simulate/simulate.hpp"
#include "graph/gpu_work.hpp"
#include "graph/loading.hpp"

namespace foretrace::simulate {

using graph::Graph;

namespace {

enum Resource : std::uint8_t { kCpu, kGpu, kCommunication, kLoading, kOtherRanks, kResources };

struct Words {
  BoundBy bound;
  std::string_view name, time;
};
constexpr Words kWords[kResources] = {
    {BoundBy::kCpu, "CPU-bound", "CPU time"},
    {BoundBy::kGpu, "GPU-bound", "GPU time"},
    {BoundBy::kCommunication, "communication-bound", "communication"},
    {BoundBy::kLoading, "loader-bound", "data loading"},
    {BoundBy::kOtherRanks, "bound by other ranks", "waiting for other ranks in collectives"}};

// Loading is CPU time of the main thread and of worker processes; here it counts as loading only.
Resource resource_of(const Graph& g, std::uint32_t workers, std::size_t t) {
  if (g.kind[t] == graph::TaskKind::kCollective) return kCommunication;
  if (graph::is_gpu(g.kind[t])) return kGpu;
  if (g.lane[t] == workers) return kLoading;
  return g.phase[t] == graph::Phase::kData && g.lane[t] == g.main_lane ? kLoading : kCpu;
}

struct Gain {
  Resource resource;
  double share;
};

// Resources by what a saving in them is worth, largest first.
std::vector<Gain> gains(const Bottleneck& b) {
  std::vector<Gain> all{{kCpu, b.cpu},
                        {kGpu, b.gpu},
                        {kCommunication, b.communication},
                        {kLoading, b.loading},
                        {kOtherRanks, b.other_ranks}};
  std::stable_sort(all.begin(), all.end(), [](const Gain& x, const Gain& y) { return x.share > y.share; });
  return all;
}

// "10 % less CPU time shortens the step by 9.1 % (GPU time: 0.4 %)"
std::string gains_text(const Bottleneck& b) {
  std::string out, others;
  for (const Gain& gain : gains(b)) {
    const double pct = 100 * Bottleneck::kSaving * gain.share;
    if (out.empty()) {
      out = fmt::format("10 % less {} shortens the step by {:.1f} %", kWords[gain.resource].time, pct);
      continue;
    }
    // CPU and GPU are always named; the others where they matter.
    constexpr double kShown = 0.05;  // %, what is printed as 0.1
    if (pct < kShown && gain.resource != kCpu && gain.resource != kGpu) continue;
    others += fmt::format("{}{}: {:.1f} %", others.empty() ? "" : ", ", kWords[gain.resource].time, pct);
  }
  return others.empty() ? out : fmt::format("{} ({})", out, others);
}

}  // namespace

std::string_view to_string(BoundBy bound) {
  constexpr std::string_view kNames[] = {"nothing", "cpu",         "gpu",   "communication",
                                         "loading", "other_ranks", "mixed", "waits"};
  return kNames[static_cast<std::size_t>(bound)];
}

namespace {

// Tasks with less time, one resource at a time.
class Savings {
 public:
  Savings(const Graph& graph, const Options& options, std::span<const Ns> transfer, Ns step)
      : graph_(graph),
        workers_(graph::workers_lane(graph)),
        options_(options),
        today_(options.cost.empty() ? std::span<const Ns>(graph.cost) : options.cost),
        transfer_(transfer),
        step_(step),
        cost_(graph.size()) {
    for (std::size_t t = 0; t < graph.size(); ++t) {
      for (std::uint8_t r = 0; r < kResources; ++r) used_[r] = used_[r] || time(t, r) > 0;
    }
  }

  /// What part of a saving in these resources reaches the step.
  double worth(std::initializer_list<Resource> saved) {
    if (std::none_of(saved.begin(), saved.end(), [&](Resource r) { return used_[r]; })) return 0;
    for (std::size_t t = 0; t < graph_.size(); ++t) {
      Ns time_of = 0;
      for (const Resource r : saved) time_of += time(t, r);
      cost_[t] = today_[t] - static_cast<Ns>(Bottleneck::kSaving * static_cast<double>(time_of));
    }
    const Ns then = steady_state(graph_, {cost_, options_.schedule, options_.contention}).timeline.step;
    const double gain = static_cast<double>(step_ - then) / static_cast<double>(step_);
    return std::clamp(gain / Bottleneck::kSaving, 0.0, 1.0);
  }

 private:
  /// Time of a task in one resource.
  [[nodiscard]] Ns time(std::size_t t, std::uint8_t r) const {
    const Resource resource = resource_of(graph_, workers_, t);
    if (resource != kCommunication) return resource == r ? today_[t] : 0;
    const Ns moves = transfer_.empty() ? today_[t] : std::min(today_[t], transfer_[t]);
    return r == kCommunication ? moves : r == kOtherRanks ? today_[t] - moves : 0;
  }

  const Graph& graph_;
  std::uint32_t workers_;  // the lane of worker processes; kNone where there is none
  const Options& options_;
  std::span<const Ns> today_, transfer_;
  Ns step_;
  std::vector<Ns> cost_;
  bool used_[kResources] = {};
};

}  // namespace

Bottleneck bottleneck(const Graph& graph, const Options& options, std::span<const Ns> transfer) {
  Bottleneck b;
  const SteadyState now = steady_state(graph, options);
  const Breakdown parts = breakdown(now.graph_of(graph), now.timeline);
  b.step = now.timeline.step;
  if (b.step <= 0) return b;
  b.gpu_busy = static_cast<double>(parts.gpu_busy) / static_cast<double>(b.step);
  b.on_gpu = parts.gpu_busy > 0 || parts.communication > 0;
  Savings savings(graph, options, transfer, b.step);
  b.cpu = savings.worth({kCpu});
  b.gpu = savings.worth({kGpu});
  b.communication = savings.worth({kCommunication});
  b.loading = savings.worth({kLoading});
  b.other_ranks = savings.worth({kOtherRanks});
  b.all = savings.worth({kCpu, kGpu, kCommunication, kLoading, kOtherRanks});
  constexpr double kHalf = 0.5;
  const Gain first = gains(b).front();
  if (!b.on_gpu) {
    b.by = BoundBy::kCpu;
  } else if (first.share >= kHalf) {
    b.by = kWords[first.resource].bound;
  } else {
    b.by = b.all >= kHalf ? BoundBy::kMixed : BoundBy::kWaits;
  }
  return b;
}

std::string Bottleneck::sentence() const {
  if (by == BoundBy::kNothing) return "nothing to say: the step has no length";
  if (!on_gpu) return fmt::format("CPU only: {}", graph::kNoGpuWork);
  const std::string rest = fmt::format("{}; the GPU is busy {:.0f} % of the step", gains_text(*this), 100 * gpu_busy);
  if (by == BoundBy::kMixed) return "mixed: " + rest;
  if (by == BoundBy::kWaits) {
    return fmt::format("bound by waits: with all work 10 % shorter, the step is {:.1f} % shorter; {}",
                       100 * kSaving * all, rest);
  }
  const auto* const words =
      std::find_if(std::begin(kWords), std::end(kWords), [&](const Words& w) { return w.bound == by; });
  return fmt::format("{}: {}", words->name, rest);
}

}  // namespace foretrace::simulate
