// Two views of a phase that do not rest on its total time: how long its short, common calls take (the speed of the host when it was
// traced), and how many launches and module calls it has.

#include "host/phase_counts.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/percentiles.hpp"
#include "work/op_names.hpp"

namespace foretrace::host {

using graph::Graph;
using graph::TaskKind;

namespace {

constexpr auto kForward = static_cast<std::size_t>(CpuPhase::kForward);
constexpr auto kOptimizer = static_cast<std::size_t>(CpuPhase::kOptimizer);

// A phase that takes half or twice what its launches usually take is another kind of work than those the figures come from. The
// further apart the two are, the less the number of launches counts. In logarithms: a factor of two.
constexpr double kFarApart = 0.69;
// Fewer calls than this do not reveal the speed of a phase: their median is one call.
constexpr std::size_t kFewestCalls = 6;

double median_us(std::vector<Ns>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return std::max(0.001, static_cast<double>(*middle) / 1e3);  // no call takes no time
}

}  // namespace

PhaseCounts count_phases(const Graph& g) {
  PhaseCounts out;
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (g.kind[t] == TaskKind::kKernel && g.launch[t].valid()) {
      const auto p = static_cast<std::size_t>(cpu_phase(g, g.launch[t].index()));
      ++out.launches[p];
      if (g.name[t].valid() && work::is_generated_kernel(g.task_name(t))) ++out.generated[p];
    } else if (!graph::is_gpu(g.kind[t]) && !g.recorded.empty()) {
      const auto p = static_cast<std::size_t>(cpu_phase(g, t));
      out.ops[p] += g.recorded[t].ops;
      out.layers[p] += g.recorded[t].layers;
    }
  }
  return out;
}

bool PhaseCounts::is_compiled(std::size_t phase) const { return phase != kOptimizer && generated[phase] > 0; }

double PhaseCounts::modules(std::size_t phase, const HostCosts& host) const {
  // Backward calls autograd's nodes and an update an optimizer; a compiled pass calls no modules.
  if (phase != kForward || generated[phase] > 0) return 0;
  return layers[phase] > 0 ? layers[phase] : host.eager.modules_per_op * ops[phase];
}

double PhaseCounts::launches_us(std::size_t phase, const HostCosts& host) const {
  const double speed = host.speed.value_or(host.default_speed);
  if (is_compiled(phase)) return (host.compiled.call_us + host.compiled.launch_us * launches[phase]) * speed;
  if (phase == kForward) return 0;  // an eager forward pass is Python as much as launches
  return host.launches.us[phase] * launches[phase] * speed / host.default_speed;
}

double PhaseCounts::correction(std::size_t phase, double ns, const HostCosts& host) const {
  const double us = launches_us(phase, host);
  if (us <= 0 || ns <= 0) return 1;
  const double weight = is_compiled(phase)    ? host.launches.compiled_weight
                        : phase == kOptimizer ? host.launches.update_weight
                                              : host.launches.backward_weight;
  const double apart = std::log(1e3 * us / ns);
  return std::exp(weight * apart / (1 + std::pow(apart / kFarApart, 4)));
}

double remaining_share(Ns own, double modules, double traced_speed, const HostCosts& host) {
  const double own_us = static_cast<double>(own) / 1e3 / traced_speed;
  const double calls = std::min(modules * host.eager.module_us, own_us);
  const double share = host.profiler.remaining_share;
  const double left = own_us > 0 ? (share * (own_us - calls) + calls) / own_us : share;
  return left * step_speed(traced_speed, host) / traced_speed;
}

double remaining_share(Ns own, std::size_t phase, const PhaseCounts& counts, double traced_speed,
                       const HostCosts& host) {
  const double by_time = remaining_share(own, counts.modules(phase, host), traced_speed, host);
  return by_time * counts.correction(phase, by_time * static_cast<double>(own), host);
}

bool has_collectives(const Graph& g) {
  return std::any_of(g.kind.begin(), g.kind.end(), [](TaskKind k) { return k == TaskKind::kCollective; });
}

std::array<double, kCpuPhases> traced_speeds(const Graph& g, const HostCosts& host) {
  std::array<std::vector<Ns>, kCpuPhases> launches, allocations;
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t]) || !g.name[t].valid()) continue;
    const auto p = static_cast<std::size_t>(cpu_phase(g, t));
    if (g.kind[t] == TaskKind::kCall && g.task_name(t) == "cudaLaunchKernel") launches[p].push_back(g.cost[t]);
    if (g.kind[t] == TaskKind::kCpu && g.task_name(t) == "aten::empty") allocations[p].push_back(g.cost[t]);
  }
  std::array<double, kCpuPhases> speed = {};
  for (std::size_t p = 0; p < kCpuPhases; ++p) {
    double sum = 0, known = 0;
    if (launches[p].size() >= kFewestCalls) {
      sum += std::log(median_us(launches[p]) / host.reference.launch_call_us) / host.reference.launch_exponent;
      ++known;
    }
    if (allocations[p].size() >= kFewestCalls) {
      sum += std::log(median_us(allocations[p]) / host.reference.empty_us);
      ++known;
    }
    if (known > 0) speed[p] = std::exp(sum / known);
  }
  double known = 0;  // forward and update share a thread, so the first that is known
  for (const double s : speed) known = known > 0 ? known : s;
  if (has_collectives(g)) {
    // Launches that are far apart, with Python in between, find cold caches: slower than any host is usually seen is not the host.
    const double slowest = host.default_speed * std::exp(kTenthPercentile * host.speed_spread);
    for (double& s : speed) s = std::min(s, slowest);
  }
  for (double& s : speed) s = s > 0 ? s : known > 0 ? known : host.default_speed;
  return speed;
}

double step_speed(double traced, const HostCosts& host) {
  return host.speed.value_or(host.default_speed * std::pow(traced / host.default_speed, host.speed_exponent));
}

}  // namespace foretrace::host
