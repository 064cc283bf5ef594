#include "search/moves/job_moves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "search/moves/strategy_move.hpp"
#include "whatif/job/job_models.hpp"
#include "whatif/job/reductions.hpp"
#include "whatif/job/reschedule.hpp"
#include "whatif/model/step_facts.hpp"

namespace foretrace::search {

namespace {

// The number behind `key=` of a use; nothing where it does not say.
std::optional<double> number_in(const std::string& use, std::string_view key) {
  if (use.empty()) return std::nullopt;
  const Result<whatif::Use> parsed = whatif::parse_use(use);
  if (!parsed || !parsed->parameters.given(key)) return std::nullopt;
  return parsed->parameters.number(key);
}

// Every third size first, then the neighbours of the one in use.
void buckets(const StrategyView& v, std::vector<Strategy>& out) {
  if (!v.job.reduces_gradients) return;
  const std::vector<double> sizes = v.bucket_sizes.empty() ? usual_bucket_sizes() : v.bucket_sizes;
  const std::optional<double> now = number_in(use_in(v.strategy, "bucket"), "mb");
  const auto at = now ? std::lower_bound(sizes.begin(), sizes.end(), *now) - sizes.begin() : 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const bool near = now && std::abs(static_cast<std::ptrdiff_t>(i) - at) <= 1;
    if (now ? !near : i % 3 != 0 && v.bucket_sizes.empty()) continue;
    out.push_back(with(v.strategy, "bucket", fmt::format("bucket:mb={:g}", sizes[i])));
  }
}

// Half precision keeps every gradient. Other buckets are counted in the recorded type: one of the two.
void compress(const StrategyView& v, std::vector<Strategy>& out) {
  if (!v.job.reduces_gradients || v.job.half_gradients) return;
  const bool already = !use_in(v.strategy, "compress-gradients").empty();
  out.push_back(with(v.strategy, "compress-gradients", already ? "" : "compress-gradients:method=fp16"));
}

void pipeline(const StrategyView& v, std::vector<Strategy>& out) {
  if (v.job.micro_batches == 0) return;
  const std::string now = use_in(v.strategy, "pipeline");
  const auto count = static_cast<std::uint32_t>(number_in(now, "microbatches").value_or(v.job.micro_batches));
  const auto add = [&](std::uint32_t micro_batches, const char* schedule) {
    std::string use = "pipeline:";
    if (micro_batches != v.job.micro_batches) use += fmt::format("microbatches={},", micro_batches);
    out.push_back(with(v.strategy, "pipeline", use + "schedule=" + schedule));
  };
  for (const char* const schedule : {"1f1b", "gpipe"}) {
    add(count, schedule);
    add(2 * count, schedule);
    if (count > 2 && count % 2 == 0) add(count / 2, schedule);
  }
  if (!now.empty()) out.push_back(with(v.strategy, "pipeline", {}));
}

// All-reduces of activations, as tensor parallelism has them, are in no buckets.
bool reduces_gradients(const whatif::Model& rank) {
  const Result<whatif::Gradients> gradients = whatif::find_gradients(rank);
  return gradients && whatif::each_gradient_once(whatif::reductions_of(rank), *gradients);
}

void balance(const StrategyView& v, std::vector<Strategy>& out) {
  if (!v.job.stages) return;
  const bool already = !use_in(v.strategy, "stage-balance").empty();
  out.push_back(with(v.strategy, "stage-balance", already ? "" : "stage-balance"));
}

}  // namespace

JobTraits job_traits(const whatif::Model& model) {
  JobTraits out;
  if (!model.job) return out;
  const whatif::JobModels& job = *model.job;
  out.reduces_gradients = true;
  for (const auto& rank : job.ranks) {
    const auto has = whatif::step_facts(*rank);
    out.reduces_gradients = out.reduces_gradients && reduces_gradients(*rank);
    out.half_gradients = out.half_gradients || has->half_gradients;
  }
  const std::vector<std::uint32_t>& stage = job.ties->stage;
  out.stages = std::any_of(stage.begin(), stage.end(), [](std::uint32_t s) { return s > 0; });
  if (!out.stages) return out;
  if (const auto recorded = whatif::Reschedule::make(job, 0, std::nullopt)) {
    out.micro_batches = recorded->recorded_micro_batches();
  }
  return out;
}

StrategyMove job_buckets_move() {
  return {"buckets of a job",
          "the gradients of a recorded job are reduced in buckets of another size",
          "a bucket is memory: gradients are held twice unless they are views of it",
          Attacks::kCommunication,
          "bucket",
          buckets};
}

StrategyMove job_compress_move() {
  return {"compress in a job",
          "the gradients of a recorded job travel in half precision",
          "convergence: small gradients may vanish in fp16; compare losses over a few hundred steps",
          Attacks::kCommunication,
          "compress-gradients",
          compress};
}

StrategyMove pipeline_move() {
  return {"reschedule a pipeline",
          "a recorded pipeline runs in another order, or with other micro-batches",
          "batch norm sees other micro-batches; more of them are in memory at once",
          Attacks::kGpu,
          "pipeline",
          pipeline};
}

StrategyMove stage_balance_move() {
  return {"balance stages",
          "layers move between the stages of a recorded pipeline",
          "a checkpoint names layers by their stage",
          Attacks::kGpu,
          "stage-balance",
          balance};
}

std::vector<whatif::Use> job_candidates(const whatif::Model& model) {
  const JobTraits traits = job_traits(model);
  const std::vector<ModuleGroup> groups;
  const Strategy as_it_is;
  const StrategyView view{model, as_it_is, {}, {}, {}, groups, 1, {}, traits};
  std::vector<whatif::Use> uses;
  for (const auto propose : {buckets, compress, pipeline, balance}) {
    std::vector<Strategy> near;
    propose(view, near);
    for (const Strategy& s : near) {
      Result<whatif::Use> use = whatif::parse_use(s.whatifs.front());
      FORETRACE_CHECK(use.has_value());
      uses.push_back(std::move(*use));
    }
  }
  return uses;
}

}  // namespace foretrace::search
