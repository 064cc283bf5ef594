#include <algorithm>
#include <functional>

#include "plan/plan.hpp"

namespace foretrace::plan {
namespace {

std::vector<int> divisors(std::int64_t n, std::int64_t most) {
  std::vector<int> out;
  for (std::int64_t d = 1; d <= std::min(n, most); ++d) {
    if (n % d == 0) out.push_back(static_cast<int>(d));
  }
  return out;
}

using Visit = std::function<void(const Plan&)>;

// Schedules of a plan's pipeline.
void each_schedule(Plan p, int layers, const Visit& visit) {
  visit(p);
  if (p.pp == 1) return;
  p.balance = "time";
  visit(p);
  p.balance.clear();
  p.schedule = "zb1p";
  visit(p);
  p.schedule = "interleaved";
  for (p.chunks = 2; p.chunks <= 4 && p.pp * p.chunks <= layers; p.chunks *= 2) visit(p);
}

// What is divided over the replicas, micro-batches, recomputation.
void each_replica(Plan p, const Planner::Figures& f, const Visit& visit) {
  for (const char* recompute : {"", "full"}) {
    p.recompute = recompute;
    for (const double microbatch : {1.0, 2.0, 4.0, 8.0}) {
      if (f.samples) p.microbatch = microbatch;
      for (const int zero : {0, 1, 3}) {
        if (zero > 0 && p.dp * p.cp == 1) continue;
        p.zero = zero;
        each_schedule(p, f.layers, visit);
      }
      if (!f.samples) break;
    }
  }
}

// Whether this model can be divided so at all: its positions over cp, its experts over ep.
bool goes(Planner& planner, const char* plan) { return planner.predict(*parse_plan(plan)).declined.empty(); }

// A choice of everything there is to choose, for so many GPUs.
void each_plan(Planner& planner, std::int64_t gpus, const Visit& visit) {
  const Planner::Figures& f = planner.figures();
  const std::int64_t most_cp = goes(planner, "cp=2") ? 4 : 1;
  const std::int64_t most_ep = goes(planner, "ep=2") ? f.gpus_per_node : 1;
  // Tensor parallel stays inside a node: its collectives are in every layer.
  for (const int tp : divisors(gpus, f.gpus_per_node)) {
    for (const int pp : divisors(gpus / tp, f.layers)) {
      for (const int cp : divisors(gpus / tp / pp, most_cp)) {
        Plan p;
        p.tp = tp;
        p.pp = pp;
        p.cp = cp;
        p.dp = static_cast<int>(gpus / tp / pp / cp);
        p.sequence = tp > 1;
        for (const int ep : divisors(p.dp, most_ep)) {
          p.ep = ep;
          each_replica(p, f, visit);
        }
      }
    }
  }
}

}  // namespace

PlanReport search_plans(Planner& planner, const SearchOptions& options) {
  PlanReport r;
  r.verb = "plan";
  r.figures = planner.figures();
  r.gpus = options.gpus;
  std::vector<Plan> all;
  each_plan(planner, options.gpus, [&](const Plan& p) { all.push_back(p); });
  r.tried = all.size();
  for (std::size_t i = 0; i < all.size(); ++i) {
    PlanPrediction p = planner.predict(all[i], Planner::Actions::kDropped);
    if (p.declined.empty() && p.fits == false) {
      p.declined = "it does not fit into the GPU's memory";
    }
    (p.declined.empty() ? r.plans : r.declined).push_back(std::move(p));
    if (options.progress) options.progress("trying plans", i + 1, all.size(), "plans");
  }
  std::stable_sort(r.plans.begin(), r.plans.end(), [](const PlanPrediction& a, const PlanPrediction& b) {
    const double rate_a = a.samples_per_s.value_or(0);
    const double rate_b = b.samples_per_s.value_or(0);
    return rate_a != rate_b ? rate_a > rate_b : a.step < b.step;
  });
  // Actions of all of them would take more room than everything else: only the fastest pipeline is simulated once more.
  const auto pipeline = std::find_if(r.plans.begin(), r.plans.end(), [](const auto& p) { return p.plan.pp > 1; });
  if (pipeline != r.plans.end()) pipeline->actions = planner.predict(pipeline->plan).actions;
  return r;
}

}  // namespace foretrace::plan
