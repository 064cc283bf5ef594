#include "plan/stack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "plan/one_gpu.hpp"
#include "whatif/model/evidence.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::plan {
namespace {

using whatif::Changes;
using whatif::Use;

constexpr std::string_view kStages = "pp";

// Parameters of a sharding and what a plan calls them. An empty key: said otherwise, below.
using Keys = std::map<std::string_view, std::string_view>;

const Keys* keys_of(std::string_view whatif) {
  static const Keys kSharded{
      {"workers", ""},        {"param_dtype", "param-dtype"}, {"reduce_dtype", "reduce-dtype"}, {"shard", ""},
      {"reshard", "reshard"}, {"prefetch", "prefetch"},       {"cpu_offload", "cpu_offload"}};
  static const std::map<std::string_view, Keys> kAll{
      {"tp", {{"size", "tp"}, {"sequence", "sequence"}, {"vocab", "vocab"}, {"kv", "kv"}, {"async", "async"}}},
      {"cp", {{"size", "cp"}, {"kind", "kind"}, {"reduce", "reduce"}}},
      {"ep", {{"size", "ep"}, {"imbalance", "imbalance"}, {"capacity", "capacity"}, {"reduce", "reduce"}}},
      {kStages,
       {{"stages", "pp"},
        {"microbatches", "microbatches"},
        {"microbatch", "microbatch"},
        {"schedule", "schedule"},
        {"chunks", "chunks"},
        {"balance", "balance"},
        {"blocks", "stages"},
        {"outputs", "outputs"}}},
      {"ddp", {{"workers", ""}, {"bucket_mb", ""}}},
      {"bucket", {{"workers", ""}, {"mb", ""}}},
      {"zero1", {{"workers", ""}}},
      {"zero2", {{"workers", ""}}},
      {"zero3", kSharded},
      {"fsdp", kSharded}};
  const auto found = kAll.find(whatif);
  return found == kAll.end() ? nullptr : &found->second;
}

constexpr double kMiB = 1 << 20;

// A number as a plan reads it: "4" of "4.0".
std::string number(double value) { return fmt::format("{}", value); }

class Reader {
 public:
  Reader(const whatif::Model& model, const std::vector<Use>& uses) : model_(model), uses_(uses) {}

  Result<Stack> read() {
    for (const Use& use : uses_) {
      FORETRACE_TRY_VOID(read(use));
    }
    if (out_.options.network.fabric.empty() && out_.options.network.collectives.empty()) {
      FORETRACE_TRY(out_.options.network.fabric, usual_fabric());
      out_.notes.push_back(fmt::format("the network was not named: {} assumed", out_.options.network.fabric));
    }
    if (replicas_ > 1) {
      if (values_.contains("reduce")) {
        return declined("reduce=0 of cp or ep with replicas, whose gradients are summed in the same call");
      }
      values_["dp"] = number(replicas_ * (experts_ > 0 ? experts_ : 1));
    }
    for (const auto& [key, value] : values_)
      out_.plan += fmt::format("{}{}={}", out_.plan.empty() ? "" : ",", key, value);
    return std::move(out_);
  }

 private:
  static tl::unexpected<Error> declined(std::string why) {
    return fail(ErrorCode::kDeclined, fmt::format("{}: {}", kStages, why));
  }

  Status read(const Use& use) {
    const whatif::WhatIf& w = *use.whatif;
    const Keys* const keys = keys_of(w.name);
    if (keys == nullptr) return other(use);
    if (!seen_.insert(w.name).second) return declined(fmt::format("{} stands in the stack twice", w.name));
    for (const whatif::Parameter& p : w.parameters) {
      FORETRACE_TRY_VOID(parameter(use, p, *keys));
    }
    if (use.parameters.given("size") && w.name == "ep") experts_ = use.parameters.number("size");
    return keys->contains("workers") ? replicas(use) : Status();
  }

  // Whoever holds a replica's parameters: ddp and its kind.
  Status replicas(const Use& use) {
    const std::string& name = use.whatif->name;
    const whatif::Parameters& p = use.parameters;
    if (replicas_ > 1) return declined("several ways of summing gradients over replicas in one stack");
    replicas_ = p.number("workers");
    const std::string_view size = name == "bucket" ? "mb" : "bucket_mb";
    if ((name == "ddp" || name == "bucket") && p.given(size)) {
      FORETRACE_TRY_VOID(set("bucket-mb", number(p.number(size) * kMiB / 1e6)));
    }
    if (name == "zero1" || name == "zero2") return set("zero", name.substr(4));
    if (name != "fsdp" && name != "zero3") return {};
    return p.number("shard") > 0 ? set("fsdp", number(p.number("shard"))) : set("zero", "3");
  }

  Status parameter(const Use& use, const whatif::Parameter& p, const Keys& keys) {
    const std::string& value = use.parameters.text(p.name);
    const bool said = use.parameters.given(p.name) && value != p.default_value;
    if (!said) return {};
    if (p.name == "fabric") return network(out_.options.network.fabric, value);
    if (p.name == "collectives") return network(out_.options.network.collectives, value);
    if (p.name == "collectives_tag") return network(out_.options.network.collectives_tag, value);
    if (p.name == "gpus_per_node") {
      const auto n = static_cast<int>(use.parameters.number(p.name));
      int& known = out_.options.network.gpus_per_node;
      if (known != 0 && known != n) return declined("one plan has one network: gpus_per_node differs in the stack");
      known = n;
      return {};
    }
    const auto key = keys.find(p.name);
    if (key == keys.end()) return declined(fmt::format("{}:{}= is not known of a pipeline", use.whatif->name, p.name));
    if (key->second.empty()) return {};
    const bool counts = p.type == whatif::ParameterType::kNumber;
    return set(std::string(key->second), counts ? number(use.parameters.number(p.name)) : value);
  }

  static Status network(std::string& known, const std::string& value) {
    if (!known.empty() && known != value) {
      return declined(fmt::format("one plan has one network: {} and {} stand in the stack", known, value));
    }
    known = value;
    return {};
  }

  Status set(const std::string& key, std::string value) {
    const auto [at, is_new] = values_.emplace(key, std::move(value));
    static_cast<void>(at);
    return is_new || key == "reduce" ? Status() : Status(declined(fmt::format("{} is said twice", key)));
  }

  // A change of one GPU's step, in front of all shardings.
  Status other(const Use& use) {
    const whatif::WhatIf& w = *use.whatif;
    switch (w.changes) {
      case Changes::kWorkers:
      case Changes::kNetwork:
        return declined(
            fmt::format("what {} does to a pipeline is not known; tp, cp, ep, ddp, bucket, fsdp, zero1, "
                        "zero2 and zero3 go with it",
                        w.name));
      case Changes::kAccumulation:
        return declined("a pipeline's passes are its micro-batches: pp:microbatches= says how many");
      case Changes::kDepth:
        return depth(use.parameters);
      default:
        out_.options.changes.push_back(use);
        return {};
    }
  }

  // A plan multiplies the block by itself.
  Status depth(const whatif::Parameters& p) {
    FORETRACE_TRY(const RepeatedBlock block, repeated_block(model_));
    if (p.given("of") && p.text("of") != block.list) {
      return declined(fmt::format("the blocks of {} are divided, not those of {}", block.list, p.text("of")));
    }
    const double layers = p.given("n") ? p.number("n") : std::round(p.number("x") * block.blocks);
    if (layers < 1) return declined("a model without layers");
    out_.options.layers = static_cast<int>(layers);
    return {};
  }

  // That of the GPU which the stack moves the step to.
  [[nodiscard]] Result<std::string> usual_fabric() const {
    const std::string target = whatif::target_of(uses_);
    if (target.empty()) return whatif::usual_fabric(model_.device);
    FORETRACE_TRY(const hardware::Device device, hardware::device_or_file(target));
    return whatif::usual_fabric(device);
  }

  const whatif::Model& model_;
  const std::vector<Use>& uses_;
  Stack out_;
  std::map<std::string, std::string> values_;  // of the plan, by key
  std::set<std::string> seen_;
  double replicas_ = 1, experts_ = 0;
};

Result<whatif::Prediction> predict_plan(const analysis::Baseline& baseline, const std::vector<Use>& uses,
                                        std::optional<double> samples) {
  const whatif::Model& model = baseline.model;
  FORETRACE_TRY_VOID(whatif::Predictor::check(model, true));
  if (model.job) {  // declines it in its own words
    FORETRACE_TRY_VOID(whatif::apply_uses(model, uses));
  }
  FORETRACE_TRY(Stack stack, stack_of(model, uses));
  FORETRACE_TRY(const Plan plan, parse_plan(stack.plan));
  stack.options.samples = samples;
  FORETRACE_TRY(Planner planner, Planner::make(baseline, stack.options));
  PlanPrediction made = planner.predict(plan, Planner::Actions::kDropped);
  if (!made.declined.empty()) return fail(ErrorCode::kDeclined, fmt::format("{}: {}", kStages, made.declined));

  whatif::Prediction p;
  p.step = made.step;
  p.low = made.low;
  p.high = made.high;
  const Ns today = baseline.figures.measured ? *baseline.figures.measured
                                             : analysis::predict(baseline, {}, whatif::Detail::kStepOnly).step;
  p.speedup = static_cast<double>(today) / static_cast<double>(p.step);
  p.gpu_time = made.gpu_time;
  p.peak_bytes = made.peak_bytes;
  p.reserved_bytes = made.reserved_bytes;
  p.fits = made.fits;
  p.samples = made.batches / plan.dp;
  p.workers = static_cast<int>(made.workers);
  p.replicas = plan.dp;
  p.exposed_communication = made.exposed_communication;
  p.origin = made.origin;
  p.band = std::move(made.band);
  p.evidence = whatif::least_evidence(uses);
  p.validated = std::all_of(uses.begin(), uses.end(), [](const Use& use) { return use.whatif->validated; });
  p.pipeline = whatif::PipelineFigures{plan.pp, made.microbatches, made.bubble, made.tokens, made.tokens_per_s};
  p.not_modelled = std::move(made.not_modelled);
  for (const std::string& note : stack.notes) p.not_modelled.push_back(note);
  for (const Use& use : uses) {
    p.applied.push_back({use.text, 0, 0});
    const std::string& left_out = use.whatif->not_modelled;
    if (keys_of(use.whatif->name) != nullptr && !left_out.empty()) p.not_modelled.push_back(left_out);
    // How sure the stages are is in the plan's own band.
    const whatif::PastErrors* past = use.whatif->name == kStages ? whatif::past_errors_of(kStages) : nullptr;
    if (past != nullptr && past->step_pct) {
      p.not_modelled.push_back(
          fmt::format("{} was {:.1f} % off in the mean of {} measured rows", kStages, *past->step_pct, past->rows));
    } else {
      for (std::string& doubt : whatif::doubts(use)) p.not_modelled.push_back(std::move(doubt));
    }
  }
  whatif::keep_first(p.not_modelled);
  return p;
}

}  // namespace

bool has_stages(const std::vector<Use>& uses) {
  return std::any_of(uses.begin(), uses.end(),
                     [](const Use& use) { return use.whatif->name == kStages && use.parameters.number("stages") > 1; });
}

Result<Stack> stack_of(const whatif::Model& model, const std::vector<Use>& uses) { return Reader(model, uses).read(); }

whatif::Prediction predict(const analysis::Baseline& baseline, const std::vector<Use>& uses,
                           std::optional<double> samples) {
  if (!has_stages(uses)) return analysis::predict(baseline, uses);
  Result<whatif::Prediction> made = predict_plan(baseline, uses, samples);
  whatif::Prediction out;
  if (made) {
    out = std::move(*made);
  } else {
    out.declined = made.error().message;
  }
  for (const Use& use : uses) out.whatif += (out.whatif.empty() ? "" : " + ") + use.text;
  return out;
}

}  // namespace foretrace::plan
