#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>

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

// Schedules of a plan's pipeline, and where it is cut.
void each_schedule(Plan p, int layers, const Visit& visit) {
  visit(p);
  if (p.pp == 1) return;
  p.balance = "time";
  visit(p);
  p.balance.clear();
  for (const char* schedule : {"gpipe", "zb1p", "dualpipe"}) {
    if (schedule == std::string_view("dualpipe") && p.pp % 2 != 0) continue;
    p.schedule = schedule;
    visit(p);
  }
  p.schedule = "interleaved";
  for (p.chunks = 2; p.chunks <= 4 && p.pp * p.chunks <= layers; p.chunks *= 2) visit(p);
}

// Samples of a micro-batch that are worth a try: few, for a pipeline that is always full, up to all that the trace has at once.
std::vector<double> microbatches(std::optional<double> traced) {
  std::vector<double> out;
  const double most = std::max(8.0, traced.value_or(0));
  for (double n = 1; n <= most; n *= 2) out.push_back(n);
  if (traced && std::find(out.begin(), out.end(), *traced) == out.end()) out.push_back(*traced);
  return out;
}

// What is divided over the replicas, micro-batches, recomputation.
void each_replica(Plan p, const Planner::Figures& f, const Visit& visit) {
  const std::vector<double> sizes = microbatches(f.samples);
  for (const char* recompute : {"", "selective", "full"}) {
    p.recompute = recompute;
    for (const double microbatch : sizes) {
      if (f.samples) p.microbatch = microbatch;
      for (const int zero : {0, 1, 2, 3}) {
        if (zero > 0 && p.dp * p.cp == 1) continue;
        // Stages keep gradients over all micro-batches, so that nothing is left to divide before the last.
        if (zero == 2 && p.pp > 1) continue;
        p.zero = zero;
        each_schedule(p, f.layers, visit);
      }
      if (!f.samples) break;
    }
  }
}

// The fastest kind of cp together with this degree of tensor parallelism, "" for the default (ring); nothing where positions cannot be divided.
std::optional<std::string> fastest_kind(Planner& planner, int tp, int cp) {
  std::optional<std::string> best;
  Ns step = 0;
  for (const char* kind : {"", "gather", "ulysses"}) {
    Plan p;
    p.tp = tp;
    p.cp = cp;
    p.kind = kind;
    const PlanPrediction made = planner.predict(p);
    if (!made.declined.empty() || (best && made.step >= step)) continue;
    best = kind;
    step = made.step;
  }
  return best;
}

// A choice of everything there is to choose, for so many GPUs.
void each_plan(Planner& planner, std::int64_t gpus, const Visit& visit) {
  constexpr std::int64_t kMostCp = 4;
  const Planner::Figures& f = planner.figures();
  const bool experts = planner.predict(*parse_plan("ep=2")).declined.empty();
  // Tensor parallel stays inside a node: its collectives are in every layer.
  for (const int tp : divisors(gpus, f.gpus_per_node)) {
    for (const int cp : divisors(gpus / tp, kMostCp)) {
      const std::optional<std::string> kind = cp > 1 ? fastest_kind(planner, tp, cp) : "";
      if (!kind) continue;
      for (const int pp : divisors(gpus / tp / cp, f.layers)) {
        Plan p;
        p.tp = tp;
        p.pp = pp;
        p.cp = cp;
        p.dp = static_cast<int>(gpus / tp / pp / cp);
        p.sequence = tp > 1;
        p.kind = *kind;
        for (const int ep : divisors(p.dp, experts ? f.gpus_per_node : 1)) {
          p.ep = ep;
          each_replica(p, f, visit);
        }
      }
    }
  }
}

// As `options.predict_all` answers them, in the order of the plans.
Result<std::vector<PlanPrediction>> predicted_elsewhere(const std::vector<Plan>& all, const SearchOptions& options) {
  FORETRACE_TRY(std::vector<PlanPrediction> answers, options.predict_all(all));
  std::map<std::string, PlanPrediction, std::less<>> by_text;
  for (PlanPrediction& p : answers) by_text.try_emplace(p.text, std::move(p));
  std::vector<PlanPrediction> out;
  for (const Plan& plan : all) {
    const auto found = by_text.find(to_text(plan));
    if (found == by_text.end()) {
      return fail(ErrorCode::kDeclined, fmt::format("no process answered for the plan {}", to_text(plan)));
    }
    out.push_back(found->second);
  }
  return out;
}

Result<std::vector<PlanPrediction>> predict_all(Planner& planner, const std::vector<Plan>& all,
                                                const SearchOptions& options) {
  if (options.predict_all) return predicted_elsewhere(all, options);
  std::vector<PlanPrediction> out;
  for (const Plan& plan : all) {
    out.push_back(planner.predict(plan, Planner::Actions::kDropped));
    if (options.progress) options.progress("trying plans", out.size(), all.size(), "plans");
  }
  return out;
}

}  // namespace

Result<PlanReport> search_plans(Planner& planner, const SearchOptions& options) {
  PlanReport r;
  r.verb = "plan";
  r.figures = planner.figures();
  r.gpus = options.gpus;
  std::vector<Plan> all;
  each_plan(planner, options.gpus, [&](const Plan& p) { all.push_back(p); });
  r.tried = all.size();
  FORETRACE_TRY(std::vector<PlanPrediction> predictions, predict_all(planner, all, options));
  for (PlanPrediction& p : predictions) {
    if (p.declined.empty() && p.fits == false) {
      p.declined = "it does not fit into the GPU's memory";
    }
    (p.declined.empty() ? r.plans : r.declined).push_back(std::move(p));
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
