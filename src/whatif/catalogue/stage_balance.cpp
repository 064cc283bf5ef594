#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/decimal.hpp"
#include "base/text.hpp"
#include "whatif/catalogue/also_written.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/job/stage_loads.hpp"

namespace foretrace::whatif {
namespace {

Status apply_alone(Model&, Draft&, const Parameters&) {
  return needs_a_job("one trace holds one stage, and stages are balanced against each other");
}

Status numbers_of_layers(const std::string& value) {
  for (const std::string_view part : split(value, '|')) {
    const double n = parse_double(part).value_or(0);
    if (n < 1 || n != std::floor(n) || n > 1024)
      return fail(ErrorCode::kUsage, fmt::format("'{}' is no number of layers for each stage, as in 4|4", value));
  }
  return {};
}

// As many blocks on each stage as let the slowest be as fast as it can be: one by one, each goes to the stage that is done first with it.
std::vector<std::size_t> most_even(const std::vector<StageLoad>& stages, std::size_t blocks) {
  std::vector<std::size_t> split(stages.size(), 1);  // no stage is left without
  const auto with_one_more = [&](std::size_t s) {
    return stages[s].fixed() + stages[s].block * static_cast<double>(split[s] + 1);
  };
  for (std::size_t left = blocks - stages.size(); left > 0; --left) {
    std::size_t first = 0;
    for (std::size_t s = 1; s < stages.size(); ++s) {
      if (with_one_more(s) < with_one_more(first)) first = s;
    }
    ++split[first];
  }
  return split;
}

Result<std::vector<std::size_t>> given_split(const Parameters& p, std::size_t stages, std::size_t blocks) {
  std::vector<std::size_t> split;
  std::size_t all = 0;
  for (const std::string& part : p.list("layers")) {
    split.push_back(static_cast<std::size_t>(parse_double(part).value_or(0)));
    all += split.back();
  }
  if (split.size() != stages || all != blocks)
    return fail(ErrorCode::kUsage,
                fmt::format("layers={}: the job has {} layers on {} stages", p.text("layers"), blocks, stages));
  return split;
}

struct Balance {
  std::vector<double> factors;  // by stage: what it takes afterwards, of what it takes today
  std::string chosen;           // the split, where nobody named one
};

Result<Balance> balance(const std::vector<StageLoad>& stages, const Parameters& p) {
  Balance out;
  std::size_t blocks = 0;
  double mean = 0;
  for (const StageLoad& s : stages) {
    if (s.time <= 0) return fail(ErrorCode::kDeclined, "a stage without a forward or backward pass");
    blocks += s.blocks;
    mean += s.time / static_cast<double>(stages.size());
  }
  if (std::any_of(stages.begin(), stages.end(), [](const StageLoad& s) { return s.blocks == 0; })) {
    if (p.given("layers")) return fail(ErrorCode::kDeclined, "no block of layers repeats on every stage");
    for (const StageLoad& s : stages) out.factors.push_back(mean / s.time);
    return out;
  }
  std::vector<std::size_t> split;
  if (p.given("layers")) {
    FORETRACE_TRY(split, given_split(p, stages.size(), blocks));
  } else {
    split = most_even(stages, blocks);
    out.chosen = fmt::format("layers were not given: {} is the fastest split", fmt::join(split, "|"));
  }
  bool same = true;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    same = same && split[s] == stages[s].blocks;
    out.factors.push_back((stages[s].fixed() + stages[s].block * static_cast<double>(split[s])) / stages[s].time);
  }
  if (!same) return out;
  return fail(ErrorCode::kDeclined, fmt::format("already: the stages hold {} layers{}", fmt::join(split, "|"),
                                                p.given("layers") ? "" : ", and no other split is faster"));
}

// Layers that go to another stage take their kernels and their CPU work with them.
Result<JobPlan> apply_to_job(const JobModels& job, const Parameters& p) {
  const std::vector<std::uint32_t>& stage = job.ties->stage;
  const std::vector<StageLoad> stages = stage_loads(job);
  if (stages.size() < 2) return fail(ErrorCode::kDeclined, "the job is no pipeline: all ranks hold the same layers");
  FORETRACE_TRY(Balance balanced, balance(stages, p));
  return JobPlan{[&stage, balanced = std::move(balanced)](std::size_t slot, Model& model, Draft& draft) -> Status {
    Selection moved;
    for (std::uint32_t t = 0; t < model.graph.size(); ++t) {
      if (moves_with_layers(model.graph, t)) moved.push_back(t);
    }
    draft.scale(moved, balanced.factors.at(stage[slot]));
    if (!balanced.chosen.empty()) model.not_modelled.push_back(balanced.chosen);
    return {};
  }};
}

const Registered kRegistered(
    {.name = "stage-balance",
     .about = "layers move between the stages of a pipeline",
     .parameters = {{.name = "layers",
                     .about = "of each stage, as in 4|4; without it the split whose slowest stage is fastest",
                     .check = numbers_of_layers}},
     .assumes =
         "layers are alike and stay whole; embedding, head and loss stay. Where no layers repeat, stages become equal",
     .source = "PipeDream",
     .not_modelled = "the memory that goes with layers to another stage; their part of the update",
     .changes = Changes::kCosts,
     .parts = {.memory = Part::kNotModelled},
     .code = "another split of the layers over the stages",
     .effort = Effort::kWork,
     .stage = Stage::kRuntime,
     .apply = apply_alone});
const RegisteredForJobs kOnJobs("stage-balance", apply_to_job);
const AlsoWritten kInPipelines("pp:balance", "stage-balance");

}  // namespace
}  // namespace foretrace::whatif
