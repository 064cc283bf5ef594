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

// The step when each part takes the multiple of its time that is estimated; parts without an estimate stay.
Estimate together(const Graph& g, const std::array<std::optional<Estimate>, kKinds>& parts) {
  Factors all = {1, 1, 1};
  for (std::size_t k = 0; k < kKinds; ++k) all[k] = parts[k] ? std::exp(parts[k]->change) : 1;
  const double then = step_with(g, all);
  Estimate out;
  out.change = std::log(then / step_with(g, {1, 1, 1}));
  double largest = 0;
  for (std::size_t k = 0; k < kKinds; ++k) {
    if (!parts[k]) continue;
    Factors slower = all, faster = all;
    slower[k] *= std::exp(parts[k]->error);
    faster[k] /= std::exp(parts[k]->error);
    const double error = parts[k]->error > 0
                             ? std::max(std::log(step_with(g, slower) / then), std::log(then / step_with(g, faster)))
                             : 0;
    out.error = std::hypot(out.error, error);
    out.own = parts[k]->own;
    if (error >= largest) {
      out.freedom = parts[k]->freedom;
      largest = error;
    }
  }
  return out;
}

Part part(std::string name, const Times& t, const Estimate& e, double step_change) {
  return {std::move(name), std::llround(mean(t.before)), std::llround(mean(t.after)), to_change(e),
          100 * std::expm1(step_change)};
}

// Whether the items of one side take the same multiple of the other side's time. Two recordings differ in every operation; a copy differs
// in none, but for the rounding of times.
template <class Items>
bool same_multiple(const Items& before, const Items& after) {
  // Too few items say nothing: they agree with any ratio. Then only equal times are a copy.
  constexpr std::size_t kMinItems = 20;
  std::vector<std::pair<double, double>> ratios;
  for (const auto& [key, item] : before) {
    const auto at = after.find(key);
    if (at == after.end() || (item.ns > 0) != (at->second.ns > 0)) return false;
    if (item.ns > 0) ratios.emplace_back(std::log(at->second.ns / item.ns), item.ns);
  }
  const double common = ratios.size() < kMinItems ? 0 : weighted_median(ratios, 0);
  double off = 0, all = 0;
  for (const auto& [ratio, weight] : ratios) {
    off += weight * std::abs(ratio - common);
    all += weight;
  }
  // Far below what the quietest kernel varies by.
  return off <= all * Noise::table().long_kernel / 2;
}

}  // namespace

double follows_host(const Graph& g, double sigma) {
  const double now = step_with(g, {1, 1, 1});
  if (now <= 0) return sigma;
  double out = 0;
  // A collective ends when the slowest rank arrives, so it varies like the CPU.
  for (const Kind kind : {kCpu, kCommunication}) {
    Factors slower = {1, 1, 1}, faster = {1, 1, 1};
    slower[kind] = std::exp(sigma);
    faster[kind] = std::exp(-sigma);
    const double least = step_with(g, faster);
    out = std::hypot(out, std::max(std::log(step_with(g, slower) / now), least > 0 ? std::log(now / least) : sigma));
  }
  return out;
}

bool are_copies(const Profile& before, const Profile& after) {
  return same_multiple(before.cpu, after.cpu) && same_multiple(before.gpu, after.gpu);
}

StepParts step_parts(const std::vector<Profile>& before, const std::vector<Profile>& after, bool copies) {
  const Noise& noise = Noise::table();
  constexpr std::array<const char*, kKinds> kNames = {kGpuPart, kCpuPart, "communication"};
  const std::array<Times, kKinds> t = {
      times(before, after, [](const Profile& p) { return p.gpu_ns - communication_of(p); }),
      times(before, after, [](const Profile& p) { return p.cpu_ns; }), times(before, after, communication_of)};
  const std::array<Sigma, kKinds> alone = {noise.gpu, noise.host_sessions, noise.host_sessions};
  const std::array<Sigma, kKinds> prior = {noise.gpu, noise.host_traced, noise.host_traced};
  const Graph& g = before.front().graph();
  const double now = step_with(g, {1, 1, 1});
  StepParts out;
  if (now <= 0) return out;
  std::array<std::optional<Estimate>, kKinds> known, beyond_noise;
  for (std::size_t k = 0; k < kKinds; ++k) {
    if (!t[k].known()) continue;
    known[k] = estimate(t[k].before, t[k].after, alone[k], prior[k]);
    if (copies) known[k]->error = 0;
    if (std::abs(known[k]->change) > known[k]->noise()) beyond_noise[k] = known[k];
    Factors only = {1, 1, 1};
    only[k] = std::exp(known[k]->change);
    out.parts.push_back(part(kNames[k], t[k], *known[k], std::log(step_with(g, only) / now)));
  }
  out.step = together(g, known);
  if (std::any_of(beyond_noise.begin(), beyond_noise.end(), [](const auto& e) { return e.has_value(); })) {
    out.certain = together(g, beyond_noise);
  }
  // Waits have no work of their own to compare: what they add to the step is what counts.
  const Times waits = times(before, after, [](const Profile& p) { return waits_of(p.graph()); });
  if (!waits.known()) return out;
  Estimate e = estimate(waits.before, waits.after, noise.host_sessions, noise.host_traced);
  if (copies) e.error = 0;
  const double added = (mean(waits.after) - mean(waits.before)) / now;
  out.parts.push_back(part("waits", waits, e, std::log1p(added)));
  const double then = std::exp(out.step.change);
  out.step.error = std::hypot(out.step.error, e.error * std::max(mean(waits.before), mean(waits.after)) / (now * then));
  out.step.change = std::log(std::max(then + added, then / 2));
  return out;
}

}  // namespace foretrace::compare
