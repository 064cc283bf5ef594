// Simulated annealing: independent of the guided search except for what a plan means, and with full simulations.

#include <algorithm>
#include <cmath>
#include <random>

#include "search/tensors.hpp"

namespace foretrace::search {

namespace {

bool possible(const TensorProblem& p, const TensorPlan& plan) {
  std::size_t first = 0;
  for (std::size_t i = 1; i < p.operations.size(); ++i) {
    if (plan.fused_with_previous[i] == 0) {
      first = i;
    } else if (!p.fused(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(i))) {
      return false;
    }
  }
  return true;
}

}  // namespace

TensorResult anneal_tensors(const TensorProblem& p, const TensorPlan& start, const TensorOptions& o) {
  TensorEvaluator evaluator(p, false);
  std::mt19937_64 random(o.seed);
  TensorResult r;
  r.plan = start;
  r.step = r.first_step = evaluator.evaluate(start);
  TensorPlan plan = start;
  Ns step = r.step;
  const std::size_t bits = p.operations.size() + 2 * p.tensors.size();
  // The search cools from accepting losses of 2 % of the step to none that matters: a factor of a thousand over the whole run.
  const double hot = 0.02 * static_cast<double>(r.step);
  const auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1.0p-53; };
  for (std::size_t tried = 0; evaluator.evaluations() < o.evaluations && bits > 0; ++tried) {
    if (tried > 20 * o.evaluations || (o.stop && o.stop())) break;  // nothing but impossible plans around
    TensorPlan candidate = plan;
    const std::size_t b = random() % bits;
    if (b < p.operations.size()) {
      if (b == 0) continue;
      candidate.fused_with_previous[b] ^= 1;
    } else if (b < p.operations.size() + p.tensors.size()) {
      const std::size_t i = b - p.operations.size();
      if (i == 0) continue;
      candidate.joined_with_previous[i] ^= 1;
    } else {
      const std::size_t i = b - p.operations.size() - p.tensors.size();
      candidate.parts[i] = static_cast<std::uint8_t>(p.parts[random() % p.parts.size()]);
    }
    if (candidate == plan || !possible(p, candidate)) continue;
    const Ns becomes = evaluator.evaluate(candidate);
    const double progress = static_cast<double>(evaluator.evaluations()) / static_cast<double>(o.evaluations);
    const double heat = hot * std::pow(1e-3, progress);
    if (becomes <= step || unit() < std::exp(-static_cast<double>(becomes - step) / heat)) {
      plan = std::move(candidate);
      step = becomes;
    }
    if (step < r.step) {
      r.step = step;
      r.plan = plan;
    }
  }
  r.evaluations = evaluator.evaluations();
  return r;
}

}  // namespace foretrace::search
