// Judges GPU work, CPU work, communication and waits of two sides, each by its own noise, and what they do to the step.

#include "compare/step_parts.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/statistics.hpp"
#include "foretrace/simulate/simulate.hpp"

namespace foretrace::compare {
namespace {

using graph::Graph;
using graph::TaskKind;

enum Kind : std::size_t { kGpu, kCpu, kCommunication, kKinds };
using Factors = std::array<double, kKinds>;

std::optional<Kind> kind_of(TaskKind kind) {
  if (kind == TaskKind::kCollective) return kCommunication;
  if (graph::is_gpu(kind)) return kGpu;
  if (kind == TaskKind::kCpu || kind == TaskKind::kCall) return kCpu;
  return {};
}

// The step when each kind of work takes this multiple of its time.
double step_with(const Graph& g, const Factors& factors) {
  std::vector<Ns> cost(g.size());
  for (std::size_t t = 0; t < g.size(); ++t) {
    const std::optional<Kind> kind = kind_of(g.kind[t]);
    cost[t] = kind ? std::llround(static_cast<double>(g.cost[t]) * factors[*kind]) : g.cost[t];
  }
  return static_cast<double>(simulate::steady_state(g, {.cost = cost}).timeline.step);
}

// The part of the critical path in which nothing runs.
double waits_of(const Graph& g) {
  const simulate::SteadyState state = simulate::steady_state(g);
  if (state.copies > 1) return 0;  // of several steps in a row, the path does not say which step waits
  return static_cast<double>(simulate::breakdown(g, state.timeline).path_waits);
}

struct Times {
  std::vector<double> before, after;
  [[nodiscard]] bool known() const {
    const auto positive = [](double v) { return v > 0; };
    return std::all_of(before.begin(), before.end(), positive) && std::all_of(after.begin(), after.end(), positive);
  }
};

template <class Get>
Times times(const std::vector<Profile>& before, const std::vector<Profile>& after, Get get) {
  Times out;
  for (const Profile& p : before) out.before.push_back(get(p));
  for (const Profile& p : after) out.after.push_back(get(p));
  return out;
}

double communication_of(const Profile& p) {
  double sum = 0;
  for (const auto& [key, item] : p.gpu) sum += item.family == work::Family::kCommunication ? item.ns : 0;
  return sum;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

Part part(std::string name, const Times& t, const Estimate& e, double step_change) {
  return {std::move(name), std::llround(mean(t.before)), std::llround(mean(t.after)), to_change(e), 100 * std::expm1(step_change)};
}

// Weighted median distance of the items' ratios from their common ratio.
template <class Items>
double scatter(const Items& before, const Items& after) {
  if (before.empty() && after.empty()) return 0;
  std::vector<std::pair<double, double>> ratios;
  for (const auto& [key, item] : before) {
    const auto at = after.find(key);
    if (at != after.end() && item.ns > 0 && at->second.ns > 0) ratios.emplace_back(std::log(at->second.ns / item.ns), item.ns);
  }
  const double common = weighted_median(ratios, 0);
  for (auto& [ratio, weight] : ratios) ratio = std::abs(ratio - common);
  return weighted_median(std::move(ratios), 1);
}

}  // namespace

double follows_cpu(const Graph& g, double sigma) {
  const double now = step_with(g, {1, 1, 1});
  if (now <= 0) return sigma;
  const double slower = step_with(g, {1, std::exp(sigma), 1}), faster = step_with(g, {1, std::exp(-sigma), 1});
  return std::max(std::log(slower / now), faster > 0 ? std::log(now / faster) : sigma);
}

bool are_copies(const Profile& before, const Profile& after) {
  // Far below what the quietest kernel varies by, and above the rounding of times to nanoseconds.
  const double least = Noise::table().long_kernel / 2;
  return scatter(before.cpu, after.cpu) < least && scatter(before.gpu, after.gpu) < least;
}

StepParts step_parts(const std::vector<Profile>& before, const std::vector<Profile>& after, bool copies) {
  const Noise& noise = Noise::table();
  const std::array<Times, kKinds> t = {
      times(before, after, [](const Profile& p) { return p.gpu_ns - communication_of(p); }),
      times(before, after, [](const Profile& p) { return p.cpu_ns; }), times(before, after, communication_of)};
  // A collective ends when the slowest rank arrives, so it varies like the CPU.
  constexpr std::array<const char*, kKinds> kNames = {"GPU work", "CPU work", "communication"};
  const std::array<Sigma, kKinds> alone = {noise.gpu, noise.host_sessions, noise.host_sessions};
  const std::array<Sigma, kKinds> prior = {noise.gpu, noise.host_traced, noise.host_traced};
  const Graph& g = before.front().graph();
  const double now = step_with(g, {1, 1, 1});
  StepParts out;
  if (now <= 0) return out;
  std::array<std::optional<Estimate>, kKinds> known;
  Factors all = {1, 1, 1};
  for (std::size_t k = 0; k < kKinds; ++k) {
    if (!t[k].known()) continue;
    known[k] = estimate(t[k].before, t[k].after, alone[k], prior[k]);
    if (copies) known[k]->error = 0;
    all[k] = std::exp(known[k]->change);
  }
  const double then = step_with(g, all);
  double largest = 0;
  for (std::size_t k = 0; k < kKinds; ++k) {
    if (!known[k]) continue;
    Factors only = {1, 1, 1}, slower = all, faster = all;
    only[k] = all[k];
    slower[k] *= std::exp(known[k]->error);
    faster[k] /= std::exp(known[k]->error);
    out.parts.push_back(part(kNames[k], t[k], *known[k], std::log(step_with(g, only) / now)));
    if (copies) continue;
    const double error = std::max(std::log(step_with(g, slower) / then), std::log(then / step_with(g, faster)));
    out.step.error = std::hypot(out.step.error, error);
    if (error >= largest) out.step.freedom = known[k]->freedom, largest = error;
    out.step.own = known[k]->own;
  }
  // Waits have no time of their own to compare: what they add to the step is what counts.
  const Times waits = times(before, after, [](const Profile& p) { return waits_of(p.graph()); });
  const double added = (mean(waits.after) - mean(waits.before)) / now;
  if (waits.known()) {
    Estimate e = estimate(waits.before, waits.after, noise.host_sessions, noise.host_traced);
    if (copies) e.error = 0;
    out.parts.push_back(part("waits", waits, e, std::log1p(added)));
    out.step.error = std::hypot(out.step.error, e.error * std::max(mean(waits.before), mean(waits.after)) / then);
  }
  out.step.change = std::log(std::max(then / now + added, 0.01));
  return out;
}

}  // namespace foretrace::compare
