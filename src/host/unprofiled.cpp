// The step without the profiler. The prior gives a factor for each phase; a measured step corrects the factors along the directions in
// which the step depends on them, each in proportion to its uncertainty.

#include "foretrace/host/unprofiled.hpp"

#include <algorithm>
#include <cmath>

#include "base/percentiles.hpp"
#include "graph/busy_time.hpp"
#include "graph/startup.hpp"
#include "hardware/figures.hpp"
#include "host/calibration.hpp"
#include "host/phase_counts.hpp"
#include "host/recorded_parts.hpp"
#include "host/step_spread.hpp"
#include "trace/latencies.hpp"

namespace foretrace::host {

using graph::DependencyKind;
using graph::Graph;
using graph::Phase;
using graph::TaskKind;

namespace {

// Another thread starts this late at most when no profiler delays it.
constexpr Ns kLongestHandOver = 300'000;

using Vector = Calibration::Vector;
using Matrix = Calibration::Matrix;

// A wake-up that a profiler delays is shorter without it. One that takes longer than any profiler's waits for something else.
Ns without_stall(Ns lag, Ns longest) { return lag > graph::kLongestWarmCall ? lag : std::min(lag, longest); }

struct PhaseTotals {
  std::array<Ns, kCpuPhases> time = {};     // as traced, of what follows the profiler
  std::array<Ns, kCpuPhases> own = {};      // of that, without recording
  std::array<Ns, kCpuPhases> other = {};    // CPU time that keeps its length
  std::array<Ns, kCpuPhases> loading = {};  // loading data
};

PhaseTotals totals(const Graph& g, const CpuParts& parts) {
  PhaseTotals sum;
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t])) continue;
    const auto p = static_cast<std::size_t>(cpu_phase(g, t));
    sum.time[p] += parts.scalable[t];
    sum.own[p] += parts.scalable[t] - parts.recording[t];
    if (step_part(g, t) != kLoadingPart) {
      sum.other[p] += g.cost[t] - parts.scalable[t];
    } else if (g.lane[t] == g.main_lane) {
      sum.loading[p] += g.cost[t];  // workers load at the same time as the phases, not in them
    }
  }
  return sum;
}

// The factors after a move by `theta` in logarithms.
CpuFactors factors_at(const CpuFactors& base, const Vector& theta) {
  CpuFactors f = base;
  for (std::size_t p = 0; p < kCpuPhases; ++p) f.phase[p] *= std::exp(theta[p]);
  f.gpu *= std::exp(theta[kGpuPart]);
  f.loading *= std::exp(theta[kLoadingPart]);
  return f;
}

Ns step_with(const Graph& g, const CpuFactors& factors, const CpuPrior& prior) {
  return simulate::steady_state(apply(g, factors, prior)).timeline.step;
}

// One step says nothing of how steps differ, and several say it themselves. A measured step is no single one.
void widen_to_steps(const Graph& g, Unprofiled& out) {
  if (out.step <= 0 || out.low <= 0) return;
  const auto step = static_cast<double>(out.step);
  double up = std::log(static_cast<double>(out.high) / step);
  double down = std::log(step / static_cast<double>(out.low));
  if (const std::optional<LogSpread> spread = recorded_spread(g)) {
    up = std::max(up, spread->up);
    down = std::max(down, spread->down);
  } else if (g.recorded_steps.steps == 1 && !out.calibrated) {
    up = std::hypot(up, kTenthPercentile * one_step_sigma());
    down = std::hypot(down, kTenthPercentile * one_step_sigma());
  } else {
    return;
  }
  out.high = std::max(out.high, static_cast<Ns>(std::ceil(step * std::exp(up))));
  out.low = std::min(out.low, static_cast<Ns>(step * std::exp(-down)));
}

// The step at both ends of what remains uncertain: all phases slow or fast together, and the GPU's own spread.
void set_band(Unprofiled& out, const Graph& g, const CpuPrior& prior, const Matrix& covariance) {
  const PhaseTotals sum = totals(g, cpu_parts(g, prior.host, out.factors.profiler));
  Vector slow{};
  Vector fast{};
  for (std::size_t p = 0; p < kCpuPhases; ++p) {
    out.sigma[p] = std::sqrt(std::max(0.0, covariance[p][p]));
    slow[p] = kTenthPercentile * out.sigma[p];
    fast[p] = -slow[p];
    if (out.calibrated) continue;
    // More was subtracted than a profiler was ever seen to cost: the excess may be the program's own time.
    const double follows = static_cast<double>(sum.own[p]) * out.factors.phase[p];
    const double share = sum.time[p] > 0 ? follows / static_cast<double>(sum.time[p]) : 1;
    const double beyond = share > 0 ? std::max(0.0, std::log(kMinRemaining / share)) : 0;
    slow[p] += beyond;
    const double all = follows + static_cast<double>(sum.other[p] + sum.loading[p]);
    if (all > 0) out.slower[p] = std::log1p(follows / all * std::expm1(beyond));
  }
  for (const std::size_t part : {kGpuPart, kLoadingPart})
    out.sigma[part] = std::sqrt(std::max(0.0, covariance[part][part]));
  const double gpu = kTenthPercentile * out.sigma[kGpuPart];
  slow[kLoadingPart] = kTenthPercentile * out.sigma[kLoadingPart];
  fast[kLoadingPart] = -slow[kLoadingPart];
  const auto high = static_cast<double>(step_with(g, factors_at(out.factors, slow), prior));
  const auto low = static_cast<double>(step_with(g, factors_at(out.factors, fast), prior));
  out.high = std::max(out.step, static_cast<Ns>(high * (1 + gpu)));
  out.low = std::min(out.step, static_cast<Ns>(low * (1 - gpu)));
  widen_to_steps(g, out);
}

}  // namespace

CpuPhase cpu_phase(const Graph& g, std::size_t task) {
  if (g.phase[task] == Phase::kOptimizer) return CpuPhase::kOptimizer;
  // Backward runs on a thread of its own; other threads count as backward too.
  return g.lane[task] == g.main_lane ? CpuPhase::kForward : CpuPhase::kBackward;
}

std::size_t step_part(const Graph& g, std::size_t task) {
  if (graph::is_gpu(g.kind[task])) return kGpuPart;
  const bool loads = g.phase[task] == Phase::kData && g.kind[task] == TaskKind::kCpu;
  return loads ? kLoadingPart : static_cast<std::size_t>(cpu_phase(g, task));
}

// A timed phase fixes its total, of which the part that is the program's own keeps its time. Where data are loaded in it, what the total
// differs from the expected one is divided between loading and the rest, each in proportion to its variance.
CpuFactors prior_factors(const Graph& g, const CpuPrior& prior) {
  CpuFactors f;
  f.profiler = traced_speeds(g, prior.host);
  const PhaseTotals sum = totals(g, cpu_parts(g, prior.host, f.profiler));
  const PhaseCounts counts = count_phases(g);
  for (std::size_t p = 0; p < kCpuPhases; ++p) {
    if (sum.own[p] <= 0) continue;
    f.phase[p] = std::min(1.0, remaining_share(sum.own[p], p, counts, f.profiler[p], prior.host));
    if (!prior.timed_share[p]) continue;
    const auto other = static_cast<double>(sum.other[p]), loading = static_cast<double>(sum.loading[p]);
    const double all = *prior.timed_share[p] * (static_cast<double>(sum.time[p]) + other + loading);
    double own = all - other - loading;
    if (loading > 0) {
      const double expected = f.phase[p] * static_cast<double>(sum.own[p]);
      const double of_loading = std::pow(prior.host.uncertainty.loading * loading, 2);
      const double of_own =
          std::pow(std::hypot(prior.host.uncertainty.shared, prior.host.uncertainty.phase[p]) * expected, 2);
      const double to_loading = of_loading / std::max(1.0, of_loading + of_own) * (own - expected);
      f.loading = std::max(kMinRemaining, 1 + to_loading / loading);
      own -= to_loading;
    }
    f.phase[p] = std::clamp(own / static_cast<double>(sum.own[p]), kMinRemaining / 2, 2.0);
  }
  return f;
}

Graph apply(const Graph& graph, const CpuFactors& factors, const CpuPrior& prior) {
  Graph g = graph;
  const CpuParts parts = cpu_parts(g, prior.host, factors.profiler);
  const Ns wake_up = prior.latencies->sync_return;
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t])) {
      if (factors.gpu != 1) g.cost[t] = static_cast<Ns>(std::llround(static_cast<double>(g.cost[t]) * factors.gpu));
    } else {
      const double f = factors.phase[static_cast<std::size_t>(cpu_phase(g, t))];
      const Ns own = parts.scalable[t] - parts.recording[t];
      const double keeps = step_part(g, t) == kLoadingPart ? factors.loading : 1;
      g.cost[t] = static_cast<Ns>(
          std::llround(static_cast<double>(own) * f + static_cast<double>(g.cost[t] - parts.scalable[t]) * keeps));
    }
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      Ns& lag = g.dep_lag[d];
      if (g.dep_kind[d] == DependencyKind::kThread) {
        const bool join = g.kind[g.dep_to[d]] == TaskKind::kWait;
        lag = without_stall(lag, join ? wake_up : kLongestHandOver);
      } else if (g.dep_kind[d] == DependencyKind::kSync) {
        lag = without_stall(lag, wake_up);
      }
    }
  }
  g.recorded.clear();  // recording is subtracted
  return g;
}

Unprofiled unprofiled(const Graph& g, std::optional<Ns> measured, const CpuPrior& prior) {
  Unprofiled out;
  out.factors = prior_factors(g, prior);
  const std::array<double, kCpuPhases> traced = out.factors.profiler;
  out.origin = "prior";
  const CpuFactors base = out.factors;
  Calibration calibration(
      [&](const Vector& theta) { return static_cast<double>(step_with(g, factors_at(base, theta), prior)); },
      prior_covariance(prior));
  if (measured) {
    out.factors = factors_at(base, calibration.solve(static_cast<double>(*measured)));
    out.calibrated = true;
    out.origin = "measured step";
  }
  CpuPrior alone = prior;  // the trace without the recorder's times
  alone.timed_share = {};
  const CpuFactors expected = prior_factors(g, alone);
  for (std::size_t p = 0; p < kCpuPhases; ++p) {
    out.speed[p] = step_speed(traced[p], prior.host) * out.factors.phase[p] / expected.phase[p];
  }
  out.step = step_with(g, out.factors, prior);
  // Streams may overlap more in the simulation than they did in the trace. Who measured the step knows better.
  if (!measured) {
    const auto is_gpu = [&](std::size_t t) { return graph::is_gpu(g.kind[t]); };
    const double busy = out.factors.gpu * static_cast<double>(graph::busy_time(g, is_gpu));
    out.step = std::max(out.step, static_cast<Ns>(busy));
  }
  set_band(out, g, prior, calibration.covariance());
  return out;
}

}  // namespace foretrace::host
