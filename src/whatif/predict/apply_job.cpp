// A change of a job: made on each of its ranks, which are then joined again.

#include <fmt/format.h>

#include <algorithm>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/job/job_models.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::whatif {

namespace {

constexpr std::string_view kReplacesCommunication =
    "it replaces the communication between ranks, which is not predicted for a job of several traces yet; ask it of "
    "one rank's trace";

// The ranks of a changed job synchronise where those of the recorded one did. A what-if that models all workers has no such places.
bool models_workers(const Model& changed) {
  const auto& lanes = changed.graph.lanes;
  return changed.interference || changed.workers > 1 ||
         std::any_of(lanes.begin(), lanes.end(),
                     [](const graph::GraphLane& lane) { return lane.role == graph::LaneRole::kPeriodMarks; });
}

// What a step is of (samples, positions, layers) is the same on all ranks, or their tensors no longer fit together. Where a rank only
// has nothing to change (a stage without attention), the others do without it.
bool concerns_every_rank(Changes changes) {
  return changes == Changes::kBatch || changes == Changes::kAccumulation || changes == Changes::kSequence ||
         changes == Changes::kDepth;
}

// The use for one rank of a job whose other ranks decide what changes on it.
Use use_on_rank(const Use& use, const RankChange& change, std::size_t slot) {
  auto own = std::make_shared<WhatIf>(*use.whatif);
  own->apply = [change, slot](Model& model, Draft& draft, const Parameters&) { return change(slot, model, draft); };
  Use out = use;
  out.whatif = own.get();
  out.own = std::move(own);
  return out;
}

}  // namespace

Result<Model> apply_to_ranks(const Model& job, const Use& use, const std::string& target, Prediction::Applied& how) {
  const JobModels& today = *job.job;
  std::vector<std::shared_ptr<const Model>> ranks = today.ranks;
  JobPlan plan;
  if (const JobChange of_job = job_change_of(*use.whatif)) {
    Result<JobPlan> found = of_job(today, use.parameters);
    if (!found) return fail(ErrorCode::kDeclined, fmt::format("{}: {}", use.whatif->name, found.error().message));
    plan = std::move(*found);
  }
  std::vector<std::string> left_alone;
  std::string declined;
  bool changed = false;
  how = {use.text, 0, 0};
  for (std::size_t s = 0; s < ranks.size(); ++s) {
    if (today.ties->changes[s] == 0) continue;
    Prediction::Applied one;
    Result<Model> model = apply_use(*ranks[s], plan.of_rank ? use_on_rank(use, plan.of_rank, s) : use, target, one);
    if (model && models_workers(*model)) {
      return fail(ErrorCode::kDeclined, fmt::format("{}: {}", use.whatif->name, kReplacesCommunication));
    }
    if (!model) {
      if (declined.empty()) declined = model.error().message;
      left_alone.push_back(fmt::format("rank {} stays as it is: {}", today.ties->numbers[s], model.error().message));
      continue;
    }
    changed = true;
    how.changed += one.changed;
    how.seconds += one.seconds;
    ranks[s] = std::make_shared<const Model>(std::move(*model));
  }
  if (!changed) return fail(ErrorCode::kDeclined, declined);
  if (!left_alone.empty() && concerns_every_rank(use.whatif->changes)) {
    return fail(ErrorCode::kDeclined,
                fmt::format("{}: all ranks have to change, and {}", use.whatif->name, left_alone.front()));
  }
  Result<Model> joined = join(plan.ties ? plan.ties : today.ties, std::move(ranks));
  if (!joined) {
    joined.error().message = fmt::format("{}: {}", use.whatif->name, joined.error().message);
    return joined;
  }
  for (const std::string& text : job.not_modelled) {
    if (text.starts_with("rank ")) joined->not_modelled.push_back(text);
  }
  joined->not_modelled.insert(joined->not_modelled.end(), left_alone.begin(), left_alone.end());
  return joined;
}

}  // namespace foretrace::whatif
