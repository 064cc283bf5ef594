#include "host/phase_counts.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

namespace foretrace::host {

using graph::Graph;
using graph::TaskKind;

namespace {

// Fewer launches than this say more about the Python around them (tools/host_changes.py takes as many).
constexpr double kEnoughAlike = 30;
// Of a phase's launches: from generated code, for its time to be that of a compiled pass.
constexpr double kMostlyGenerated = 0.25;
// A phase so far from what its launches usually take is none of those it was found on: both are believed less and less.
constexpr double kFarApart = 0.69;  // log 2

// Hosts people train on, against the one of hosts/*.csv, whose own two speeds lie 1.9 apart (data/README.md); what lies outside is another
// call of the same name.
constexpr double kFastest = 0.4, kSlowest = 6;
constexpr std::size_t kEnough = 6;  // calls of one kind that tell a speed

double median_us(std::vector<Ns>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return std::max(0.001, static_cast<double>(*middle) / 1e3);
}

}  // namespace

CountedPhases count_phases(const Graph& g) {
  CountedPhases out;
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t])) {
      if (!g.launch[t].valid() || g.kind[t] != TaskKind::kKernel) continue;
      const auto p = static_cast<std::size_t>(cpu_phase(g, g.launch[t].index()));
      ++out.launches[p];
      if (g.name[t].valid() && g.task_name(t).starts_with("triton_")) ++out.generated[p];
    } else if (!g.recorded.empty()) {
      const auto p = static_cast<std::size_t>(cpu_phase(g, t));
      out.ops[p] += g.recorded[t].ops;
      out.layers[p] += g.recorded[t].layers;
    }
  }
  return out;
}

double CountedPhases::modules(std::size_t phase, const HostCosts& host) const {
  // Backward calls autograd's nodes and an update an optimizer; compiled passes leave modules out.
  if (phase != static_cast<std::size_t>(CpuPhase::kForward) || generated[phase] > kMostlyGenerated * launches[phase])
    return 0;
  return layers[phase] > 0 ? layers[phase] : host.modules_of_op * ops[phase];
}

double CountedPhases::correction(std::size_t phase, double ns, const HostCosts& host) const {
  const double speed = host.speed.value_or(host.usual_speed);
  const bool update = phase == static_cast<std::size_t>(CpuPhase::kOptimizer);
  double us = 0, weight = 0;
  if (!update && launches[phase] > 0 && generated[phase] > kMostlyGenerated * launches[phase]) {
    us = (host.compiled_call_us + host.compiled_launch_us * launches[phase]) * speed;
    weight = host.counted_compiled;
  } else if (phase != static_cast<std::size_t>(CpuPhase::kForward) && launches[phase] > kEnoughAlike) {
    us = host.launch_us[phase] * launches[phase] * speed / host.usual_speed;
    weight = update ? host.counted_update : host.counted_backward;
  }
  if (us <= 0 || ns <= 0) return 1;
  const double apart = std::log(1e3 * us / ns);
  return std::exp(weight * apart / (1 + std::pow(apart / kFarApart, 4)));
}

double kept_share(Ns own, double modules, double traced_speed, const HostCosts& host) {
  const double own_us = static_cast<double>(own) / 1e3 / traced_speed;
  const double calls = std::min(modules * host.module_us, own_us);
  const double left = own_us > 0 ? (host.left * (own_us - calls) + calls) / own_us : host.left;
  return left * step_speed(traced_speed, host) / traced_speed;
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
    if (launches[p].size() >= kEnough) {
      sum += std::log(median_us(launches[p]) / host.launch_call_us) / host.launch_follows;
      ++known;
    }
    if (allocations[p].size() >= kEnough) {
      sum += std::log(median_us(allocations[p]) / host.empty_us);
      ++known;
    }
    if (known > 0) speed[p] = std::clamp(std::exp(sum / known), kFastest, kSlowest);
  }
  double known = 0;  // forward and update share a thread, so the first that is known
  for (const double s : speed) known = known > 0 ? known : s;
  for (double& s : speed) s = s > 0 ? s : known > 0 ? known : host.usual_speed;
  return speed;
}

double step_speed(double traced, const HostCosts& host) {
  return host.speed.value_or(host.usual_speed * std::pow(traced / host.usual_speed, host.follows));
}

}  // namespace foretrace::host
