#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/decimal.hpp"
#include "foretrace/analysis/summary.hpp"
#include "hardware/figures.hpp"
#include "hardware/shared_memory.hpp"
#include "plan/batch.hpp"
#include "plan/compose.hpp"
#include "plan/one_gpu.hpp"
#include "plan/plan.hpp"
#include "plan/utilisation.hpp"
#include "trace/latencies.hpp"
#include "whatif/parallel/in_step.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::plan {

struct Planner::State {
  const analysis::Baseline* baseline = nullptr;
  PlanOptions options;
  std::unique_ptr<Groups> groups;
  Figures figures;
  std::unique_ptr<Traced> traced;
  OneGpu today;  // the traced step itself
  // Of the traced step with the changes in front of the plan; FLOP as `summary` counts them.
  std::optional<double> samples, tokens, flops;
  std::map<Shape, OneGpu> known;
  std::map<std::string, whatif::Prediction> together;  // several workers without a pipeline, by plan

  const OneGpu& of_one_gpu(const Shape& shape) {
    const auto at = known.find(shape);
    if (at != known.end()) return at->second;
    OneGpu made;
    if (const Result<OneGpu> done = predict_shape(shape)) {
      made = *done;
    } else {
      made.declined = done.error().message;
    }
    return known.emplace(shape, std::move(made)).first->second;
  }

  [[nodiscard]] Result<OneGpu> predict_shape(const Shape& shape) {
    if (const auto blocks = parse_int64(shape.recompute)) return some_recomputed(shape, static_cast<int>(*blocks));
    FORETRACE_TRY(const std::vector<whatif::Use> changes, all_changes(shape));
    OneGpu out = traced->predict(changes);
    if (!out.declined.empty()) return fail(ErrorCode::kDeclined, out.declined);
    const Plan alone;
    FORETRACE_TRY(const Composition whole, compose(job_of(alone, out, out.parts.blocks, 1, 0), *groups, false));
    out.left_out = out.prediction.step - real(whole.step);
    return out;
  }

  // Blocks that run again and blocks that do not are in all stages alike.
  Result<OneGpu> some_recomputed(Shape shape, int blocks) {
    if (blocks > figures.layers) {
      return fail(ErrorCode::kDeclined, fmt::format("the model has {} blocks, not {}", figures.layers, blocks));
    }
    shape.recompute.clear();
    OneGpu out = of_one_gpu(shape);
    shape.recompute = "full";
    const OneGpu& again = of_one_gpu(shape);
    for (const OneGpu& one : {out, again}) {
      if (!one.declined.empty()) return fail(ErrorCode::kDeclined, one.declined);
    }
    out.parts = mixed(again.parts, out.parts, static_cast<double>(blocks) / figures.layers);
    return out;
  }

  // What the changes in front of the plan make of the FLOP of a step ("batch:x=2" twice as many).
  [[nodiscard]] double changed_flops() const {
    if (options.changes.empty()) return 1;
    const OneGpu traced_step = traced->predict({});
    const double before = traced_step.parts.flops(traced_step.parts.blocks);
    return before > 0 ? today.parts.flops(today.parts.blocks) / before : 1;
  }

  [[nodiscard]] std::optional<bool> fits(double reserved_bytes) const {
    if (figures.memory_gb <= 0) return std::nullopt;
    return reserved_bytes <= figures.memory_gb * 1e9;
  }

  // As long as it takes on this machine, where the traced step was measured without the profiler.
  [[nodiscard]] Ns real(Ns time) const {
    if (!figures.measured) return time;
    const double by = static_cast<double>(*figures.measured) / static_cast<double>(figures.unprofiled);
    return static_cast<Ns>(std::llround(static_cast<double>(time) * by));
  }

  [[nodiscard]] Result<std::vector<whatif::Use>> all_changes(const Shape& shape, bool ep_reduces = false) const {
    FORETRACE_TRY(const std::vector<whatif::Use> own, changes_of(shape, *groups, options.network, ep_reduces));
    std::vector<whatif::Use> all = options.changes;
    all.insert(all.end(), own.begin(), own.end());
    return all;
  }

  [[nodiscard]] Shape shape_of(const Plan& p, const Batch& b) const {
    Shape s;
    s.batch = b.share;
    s.tp = p.tp;
    s.cp = p.cp;
    s.ep = p.ep;
    s.tp_apart = p.apart("tp");
    s.cp_apart = p.apart("cp");
    s.sequence = p.sequence;
    s.vocab = p.vocab;
    s.async = p.async;
    s.divide_keys = p.divide_keys;
    s.imbalance = p.imbalance;
    s.capacity = p.capacity;
    s.kind = p.kind;
    s.recompute = p.recompute;
    s.gpu = options.gpu;
    return s;
  }

  // Of a block's parameters, those of experts on this GPU: what dividing the experts took away tells.
  double expert_share(const Shape& shape, const OneGpu& divided) {
    if (shape.ep < 2) return 0;
    Shape whole_experts = shape;
    whole_experts.ep = 1;
    const OneGpu& all = of_one_gpu(whole_experts);
    if (!all.declined.empty() || divided.parts.block.parameters <= 0) return 0;
    const double local = (all.parts.block.parameters - divided.parts.block.parameters) / (shape.ep - 1);
    return std::clamp(local / divided.parts.block.parameters, 0.0, 1.0);
  }

  [[nodiscard]] Job job_of(const Plan& plan, const OneGpu& one, int layers, int microbatches, double experts) const {
    const whatif::Model& m = baseline->model;
    // Ranks on parts of one GPU share its memory where they are in step: those of one stage, but not those of others.
    const double parts = hardware::parts_of_gpu(one.device).count;
    const double sharing = std::max(1.0, parts / plan.pp);
    // Stages wait for each other as members of a group do, who have waited already (whatif/parallel/in_step.hpp).
    const bool met = plan.tp > 1 || plan.cp > 1 || plan.ep > 1;
    const double slowest = parts > 1 && !met ? whatif::slowest_process(m, plan.workers()) : 1;
    // Messages between stages are called from Python (batch_isend_irecv), as the collectives of a hook are: 0.15 ms each in
    // the traces of pipelines.
    const double message_us = m.host.ddp.collective_us + m.host.ddp.hook_us;
    return {plan,
            one.parts,
            layers,
            microbatches,
            experts,
            std::max(1.0, one.device.streaming_gbs() / sharing),
            m.launches.cpu_per_launch[static_cast<std::size_t>(host::CpuPhase::kBackward)],
            m.latencies->kernel_gap,
            m.cpu_time(message_us, graph::Phase::kForward),
            slowest,
            one.device.sm_count,
            hardware::measured_figures(one.device).kernel_contention};
  }

  // Whether what-ifs say all of a plan. Over which GPUs gradients are summed differs between experts and all else, which one says for ep alone.
  [[nodiscard]] bool one_pass(const Plan& plan, const Batch& batch) const {
    const bool one_sum = plan.ep == 1 || !plan.reduce || plan.experts_alone();
    const bool keeps_fp32_copies = plan.master && today.parts.gradient_bytes < 4;
    return plan.pp == 1 && batch.microbatches == 1 && figures.layers == figures.traced_layers && one_sum &&
           !plan.overlap && !plan.bucket_mb && !plan.fused_loss && !keeps_fp32_copies;
  }

  PlanPrediction predict(const Plan& plan, Actions actions);
  Status predict_into(const Plan& plan, Actions actions, PlanPrediction& out);
  Result<whatif::Use> workers_of(const Plan& plan);
  Status without_pipeline(const Plan& plan, const Shape& shape, PlanPrediction& out);
  Status with_pipeline(const Plan& plan, const Batch& batch, const OneGpu& one, double experts, Actions actions,
                       PlanPrediction& out);
  void rates(const Plan& plan, const Batch& batch, const OneGpu& one, PlanPrediction& out) const;
};

Planner::Planner(std::unique_ptr<State> state) : state_(std::move(state)) {}
Planner::~Planner() = default;
Planner::Planner(Planner&&) noexcept = default;
Planner& Planner::operator=(Planner&&) noexcept = default;
const Planner::Figures& Planner::figures() const { return state_->figures; }
PlanPrediction Planner::predict(const Plan& plan, Actions actions) { return state_->predict(plan, actions); }

namespace {

std::optional<std::int64_t> number_of(const trace::Steps& steps, const std::string& name) {
  for (const trace::Step& s : steps.steps) {
    if (s.name == name) return s.number;
  }
  return std::nullopt;
}

}  // namespace

Result<Planner> Planner::make(const analysis::Baseline& baseline, const PlanOptions& options) {
  auto s = std::make_unique<State>();
  s->baseline = &baseline;
  s->options = options;
  for (const whatif::Use& use : options.changes) {
    if (use.whatif->changes != whatif::Changes::kWorkers) continue;
    return fail(ErrorCode::kUsage, fmt::format("{} is about several GPUs, and so is a plan", use.whatif->name),
                "a plan says it: tp=2,pp=4,cp=2,ep=8,dp=8,zero=3");
  }
  FORETRACE_TRY(whatif::Network network, whatif::network_of(options.network, baseline.model.device));
  s->groups = std::make_unique<Groups>(std::move(network));
  FORETRACE_TRY(Traced traced, Traced::make(baseline));
  s->traced = std::make_unique<Traced>(std::move(traced));
  s->figures.unprofiled = baseline.figures.unprofiled;
  s->figures.measured = baseline.figures.measured;
  FORETRACE_TRY(s->today, s->predict_shape({}));
  const Parts& parts = s->today.parts;

  const trace::Steps steps = trace::find_steps(*baseline.model.trace);
  const Result<analysis::SummaryReport> summary = analysis::summarise(
      *baseline.model.trace, steps, {.step = number_of(steps, baseline.figures.step_name), .samples = options.samples});
  Figures& f = s->figures;
  f.file = baseline.figures.file;
  f.step_name = baseline.figures.step_name;
  f.device = baseline.figures.device;
  f.network = s->groups->network().name;
  f.gpus_per_node = s->groups->network().gpus_per_node;
  f.traced_layers = parts.blocks;
  f.layers = options.layers.value_or(parts.blocks);
  if (summary && summary->batch) {
    f.samples = summary->batch->samples;
    f.tokens = summary->batch->tokens;
    if (f.samples) s->samples = *f.samples * s->today.prediction.samples;
    if (f.tokens) s->tokens = *f.tokens * s->today.pass_samples;
  }
  if (summary && summary->flops) s->flops = summary->flops->model * s->changed_flops();
  hardware::Device device = s->today.device;
  if (!options.gpu.empty()) {
    FORETRACE_TRY(device, hardware::device_or_file(options.gpu));
  }
  if (device.name != baseline.model.device.name) f.device = device.name;
  if (options.memory_gb) {
    f.memory_gb = *options.memory_gb;
  } else if (device.reported_gb > 0) {
    f.memory_gb = device.reported_gb - static_cast<double>(hardware::kDriverBytes) / 1e9;
  }
  f.usd_per_hour = options.usd_per_hour;
  if (!f.usd_per_hour && device.usd_per_hour > 0) f.usd_per_hour = device.usd_per_hour;
  return Planner(std::move(s));
}

PlanPrediction Planner::State::predict(const Plan& plan, Actions actions) {
  PlanPrediction out;
  out.plan = plan;
  out.text = to_text(plan);
  out.workers = plan.workers();
  if (const Status done = predict_into(plan, actions, out); !done) {
    out.declined = done.error().message;
    out.step = 0;
  }
  return out;
}

Status Planner::State::predict_into(const Plan& plan, Actions actions, PlanPrediction& out) {
  const std::optional<double> global = plan.global_batch ? plan.global_batch : options.global_batch;
  FORETRACE_TRY(const Batch batch, batch_of(plan, global, samples));
  out.microbatches = batch.microbatches;
  out.batches = batch.replica * plan.dp * today.prediction.samples;
  if (samples) out.global_batch = *samples * batch.replica * plan.dp;
  const Shape shape = shape_of(plan, batch);
  const OneGpu& one_gpu = of_one_gpu(shape);
  if (!one_gpu.declined.empty()) return fail(ErrorCode::kDeclined, one_gpu.declined);
  out.not_modelled = one_gpu.prediction.not_modelled;
  out.origin = one_gpu.prediction.origin;
  const double experts = expert_share(shape, one_gpu);
  FORETRACE_TRY_VOID(with_pipeline(plan, batch, one_gpu, experts, actions, out));
  if (one_pass(plan, batch)) {
    FORETRACE_TRY_VOID(without_pipeline(plan, shape, out));
  } else if (plan.cpu_offload || plan.prefetch) {
    return fail(ErrorCode::kDeclined, "cpu_offload and prefetch are predicted only for one micro-batch without stages");
  }
  rates(plan, batch, one_gpu, out);
  return {};
}

// The replicas of a plan without experts as a what-if.
Result<whatif::Use> Planner::State::workers_of(const Plan& plan) {
  whatif::ParallelChoice choice;
  choice.parallel = plan.zero == 0 ? "ddp" : plan.zero == 3 ? "fsdp" : fmt::format("zero{}", plan.zero);
  if (plan.zero == 3) {
    choice.param_dtype = plan.param_dtype;
    choice.reduce_dtype = plan.reduce_dtype;
    if (plan.shard > 0) choice.shard = plan.shard;
    choice.reshard = plan.reshard;
    choice.cpu_offload = plan.cpu_offload;
    choice.prefetch = plan.prefetch;
  }
  FORETRACE_TRY(const whatif::Parallelism how, whatif::make_parallelism(choice));
  return whatif::parallel_use(how, groups->model(plan.apart("cp")), plan.dp * plan.cp,
                              groups->members_in_node(plan.apart("cp")));
}

// One micro-batch through all layers: the step as `whatif` predicts it, with the workers that share its gradients.
Status Planner::State::without_pipeline(const Plan& plan, const Shape& shape, PlanPrediction& out) {
  const OneGpu& one_gpu = known.at(shape);
  const std::int64_t replicas = std::int64_t{plan.dp} * plan.cp;
  const whatif::Prediction* p = &one_gpu.prediction;
  if ((plan.reduce && replicas > 1) || plan.recomputed_blocks()) {
    const auto found = together.find(out.text);
    if (found != together.end()) {
      p = &found->second;
    } else {
      FORETRACE_TRY(std::vector<whatif::Use> changes, all_changes(shape, plan.experts_alone()));
      if (plan.reduce && replicas > 1 && !plan.experts_alone()) {
        FORETRACE_TRY(whatif::Use workers, workers_of(plan));
        changes.push_back(std::move(workers));
      }
      p = &together.emplace(out.text, analysis::predict(*baseline, changes)).first->second;
    }
  }
  if (!p->declined.empty()) return fail(ErrorCode::kDeclined, p->declined);
  out.step = p->step;
  out.low = p->low;
  out.high = p->high;
  out.exposed_communication = p->exposed_communication;
  out.exposed_groups = std::min(out.exposed_groups, p->exposed_communication);
  out.exposed_gradients = p->exposed_communication - out.exposed_groups;
  out.gpu_time = p->gpu_time;
  out.band = p->band;
  out.reserved_bytes = p->reserved_bytes;
  out.peak_bytes = p->peak_bytes;
  for (PlanRank& rank : out.ranks) rank.peak_bytes = p->peak_bytes;
  out.fits = p->reserved_bytes ? fits(static_cast<double>(*p->reserved_bytes)) : std::nullopt;
  out.not_modelled = p->not_modelled;
  return {};
}

Status Planner::State::with_pipeline(const Plan& plan, const Batch& batch, const OneGpu& one_gpu, double experts,
                                     Actions actions, PlanPrediction& out) {
  const bool with_actions = plan.pp > 1 && actions == Actions::kKept;
  FORETRACE_TRY(Composition made,
                compose(job_of(plan, one_gpu, figures.layers, batch.microbatches, experts), *groups, with_actions));
  const whatif::Prediction& p = one_gpu.prediction;
  out.step = std::max<Ns>(1, real(made.step) + one_gpu.left_out);
  out.bubble = real(made.bubble);
  out.exposed_groups = real(made.exposed_groups);
  out.exposed_stages = made.exposed_stages;
  out.exposed_gradients = made.exposed_gradients;
  out.exposed_communication = out.exposed_groups + out.exposed_stages + out.exposed_gradients;
  const double off = made.sigma * static_cast<double>(out.exposed_communication);
  const auto lasting = [](double ns) { return static_cast<Ns>(std::llround(ns)); };
  const auto band = [&](Ns edge) {
    const double compute =
        static_cast<double>(out.step) * static_cast<double>(edge - p.step) / static_cast<double>(p.step);
    return lasting(std::hypot(compute, off));
  };
  out.low = std::max<Ns>(0, out.step - band(p.low));
  out.high = out.step + band(p.high);
  const double longer = static_cast<double>(out.step) / static_cast<double>(p.step);
  for (whatif::BandPart part : p.band) {
    for (Ns* const time : {&part.down, &part.up}) *time = lasting(longer * static_cast<double>(*time));
    out.band.push_back(std::move(part));
  }
  if (off > 0) {
    out.band.push_back({"communication", made.sigma, lasting(off), lasting(off), "collectives are modelled"});
  }
  out.gpu_time = real(made.gpu_time);
  out.ranks = std::move(made.ranks);
  for (PlanRank& rank : out.ranks) {
    for (Ns* const time : {&rank.busy, &rank.bubble, &rank.update}) *time = real(*time);
  }
  out.actions = std::move(made.actions);
  for (PlanAction& action : out.actions) {
    for (Ns* const time : {&action.start, &action.end}) *time = real(*time);
  }
  if (one_gpu.parts.memory) {
    out.peak_bytes = made.peak;
    const double reserve = p.reserved_bytes && p.peak_bytes && *p.peak_bytes > 0
                               ? static_cast<double>(*p.reserved_bytes) / static_cast<double>(*p.peak_bytes)
                               : 1;
    out.reserved_bytes = static_cast<std::int64_t>(std::llround(static_cast<double>(made.peak) * reserve));
    out.fits = fits(static_cast<double>(*out.reserved_bytes));
  }
  return {};
}

void Planner::State::rates(const Plan& plan, const Batch& batch, const OneGpu& one_gpu, PlanPrediction& out) const {
  const double seconds = static_cast<double>(out.step) / 1e9;
  const double batches = batch.replica * plan.dp;  // traced batches in a step of the job
  if (samples) out.samples_per_s = *samples * batches / seconds;
  if (tokens) {
    out.tokens = *tokens * batches;
    out.tokens_per_s = *out.tokens / seconds;
  }
  const Parts& t = today.parts;
  const std::optional<double> peak = peak_of(t.flops_by_type, one_gpu.device);
  if (flops && peak && t.flops(t.blocks) > 0) {
    const double all = *flops * t.flops(figures.layers) / t.flops(t.blocks) * batches;
    out.mfu = all / seconds / *peak / static_cast<double>(out.workers);
  }
  if (out.tokens_per_s && figures.usd_per_hour) {
    out.usd_per_million_tokens =
        *figures.usd_per_hour * static_cast<double>(out.workers) / 3600 / *out.tokens_per_s * 1e6;
  }
}

}  // namespace foretrace::plan
