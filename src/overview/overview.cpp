#include "foretrace/overview/overview.hpp"

#include <fmt/format.h>

#include "foretrace/whatif/parallel.hpp"
#include "overview/operations.hpp"
#include "plan/stack.hpp"

namespace foretrace::overview {

namespace {

using whatif::Prediction;
using whatif::Use;

// One change of each kind people try first, for graphs too large to search.
constexpr const char* kCommonChanges[] = {"amp:dtype=bf16", "fused-optimizer", "cuda-graph"};

// The changes to stack: those asked for, else the best combination found, else the best single change.
std::vector<Use> changes_to_stack(const std::optional<search::Advised>& advised, const std::vector<Prediction>& alone,
                                  std::vector<Use> asked) {
  if (!asked.empty()) return asked;
  if (advised) return advised->together ? advised->together->uses : std::vector<Use>{};
  const Prediction* best = nullptr;
  for (const Prediction& p : alone) {
    if (p.declined.empty() && (best == nullptr || p.step < best->step)) best = &p;
  }
  return best == nullptr ? std::vector<Use>{} : std::vector<Use>{*whatif::parse_use(best->whatif)};
}

// The stack, and what each of its beginnings gives. A beginning may be declined although the whole is not: TF32 changes nothing before
// the step moves to another GPU. Where the whole is declined, the longest beginning that is not takes its place.
void predict_stack(Overview& o) {
  while (!o.stack.empty()) {
    Prediction whole = predict(*o.baseline, o.stack);
    if (whole.declined.empty()) {
      o.best = std::move(whole);
      break;
    }
    o.stack.pop_back();
  }
  for (std::size_t n = 1; n < o.stack.size(); ++n) {
    const std::vector<Use> first(o.stack.begin(), o.stack.begin() + static_cast<std::ptrdiff_t>(n));
    const Prediction p = predict(*o.baseline, first, whatif::Detail::kStepOnly);
    if (p.declined.empty()) o.waterfall.emplace_back(o.stack[n - 1].text, p.step);
  }
  if (o.best) o.waterfall.emplace_back(o.stack.back().text, o.best->step);
}

// The changes asked for, each alone, and where the graph is not too large what a search finds.
void predict_alone(const analysis::Baseline& base, const std::vector<Use>& asked, unsigned threads,
                   std::optional<search::Advised>& advised, std::vector<Prediction>& alone) {
  if (base.model.graph.size() <= kLargestSearched) {
    advised = search::advise(base, {.threads = threads});
  } else if (asked.empty()) {
    for (const char* text : kCommonChanges) alone.push_back(predict(base, {*whatif::parse_use(text)}));
  }
  for (const Use& use : asked) alone.push_back(plan::predict(base, {use}));
  // The same trace gives the same overview: how long a change took to apply is not part of it.
  for (Prediction& p : alone) {
    for (Prediction::Applied& one : p.applied) one.seconds = 0;
  }
}

void predict_changes(Overview& o, std::vector<Use> asked, const OverviewOptions& options) {
  const analysis::Baseline& base = *o.baseline;
  predict_alone(base, asked, options.threads, o.advised, o.alone);
  o.stack_was_asked = !asked.empty();
  o.stack = changes_to_stack(o.advised, o.alone, std::move(asked));
  predict_stack(o);
  if (o.best) {
    o.predicted = analysis::replay_step(std::move(o.best->graph));
  } else {
    o.predicted = analysis::replay_step(base.model.graph);
  }
}

// Other GPUs, more workers, sliders. What cannot be answered is left out.
void predict_elsewhere(Overview& o, const OverviewOptions& options) {
  const analysis::Baseline& base = *o.baseline;
  const bool large = base.model.graph.size() > kLargestSearched;
  analysis::GpusOptions gpus;
  gpus.threads = options.threads;
  gpus.price_list = options.price_list;
  if (large) gpus.targets = {"A100-SXM4-80GB", "H100-SXM5"};
  if (Result<analysis::GpusReport> report = analysis::compare_gpus(base, gpus)) o.gpus = std::move(*report);

  const std::string fabric = options.fabric.empty() ? whatif::usual_fabric(base.model.device) : options.fabric;
  const Result<whatif::Parallelism> how = whatif::make_parallelism({});
  const Result<whatif::Network> network = whatif::network_of({.fabric = fabric}, base.model.device);
  if (how && network && base.model.parameter_elements != 0) {
    const std::vector<int> workers = large ? std::vector<int>{8} : std::vector<int>{2, 4, 8, 16, 32, 64};
    o.scale = analysis::scale_report(base, *how, network->collectives, network->gpus_per_node, workers);
    if (o.scale->predictions.empty()) o.scale.reset();
  }
  o.sliders = analysis::sliders(base, o.scale ? &*o.scale : nullptr,
                                {.fabric = fabric, .few = large, .bands = !large, .threads = options.threads});
}

// What-ifs need the events behind the tasks, which a graph read back from an exported file does not have: there the graph is
// built again, from the events of the file.
Result<analysis::Baseline> baseline_of(const trace::Trace& trace, const analysis::OpenStep& step,
                                       const OverviewOptions& options) {
  if (step.graphs.embedded() || !step.replayed)
    return analysis::make_baseline(trace, options.step, options.measurements);
  return analysis::make_baseline(trace, step.step(), step.replayed->graph, options.measurements);
}

// The changes made on all ranks, which are simulated together.
void ask_the_job(JobOverview& job, const std::vector<Use>& asked, const OverviewOptions& options) {
  if (job.job->ranks.size() < 2 || !job.report.connected) return;
  Result<analysis::Baseline> baseline = analysis::make_baseline(*job.job, options.step, options.measurements);
  if (!baseline) {
    job.declined = baseline.error().message;
    return;
  }
  job.baseline = std::move(*baseline);
  predict_alone(*job.baseline, asked, options.threads, job.advised, job.alone);
  const std::vector<Use> stack = changes_to_stack(job.advised, job.alone, asked);
  if (stack.empty()) return;
  Prediction best = predict(*job.baseline, stack);
  if (!best.declined.empty()) return;
  job.best = std::move(best);
  if (job.baseline->model.graph.size() > kLargestSearched) return;
  if (Result<ChangedJob> changed = changed_job(*job.baseline, *job.step, stack)) job.changed = std::move(*changed);
}

void look_at_ranks(Overview& o, const std::vector<Use>& asked, const OverviewOptions& options) {
  if (options.job == nullptr) return;
  const analysis::RanksOptions how{.step = options.step, .threads = options.threads};
  Result<std::shared_ptr<const analysis::RanksStep>> step = analysis::open_ranks_step(*options.job, how);
  if (!step) {
    o.no_job = step.error().message;
    return;
  }
  o.job = JobOverview{options.job, analysis::ranks_report(*options.job, **step, how), *step};
  ask_the_job(*o.job, asked, options);
}

}  // namespace

Result<Overview> make_overview(const trace::Trace& trace, const OverviewOptions& options) {
  FORETRACE_TRY(std::vector<Use> asked, analysis::parse_uses(options.whatifs));
  FORETRACE_TRY(analysis::OpenStep step, analysis::open_step(trace, trace::find_steps(trace), options.step));
  Overview o;
  o.trace = &trace;
  FORETRACE_TRY(o.summary, analysis::summarise(trace, step, {options.step, {}, options.measurements}));
  look_at_ranks(o, asked, options);
  Result<analysis::Baseline> baseline = baseline_of(trace, step, options);
  if (step.replayed) o.traced = std::move(*step.replayed);
  if (!baseline) {
    if (baseline.error().code != ErrorCode::kDeclined) return tl::unexpected(baseline.error());
    o.declined = baseline.error().message;
    return o;
  }
  o.baseline = std::move(*baseline);
  o.operations = operations_of(*o.baseline);
  predict_changes(o, std::move(asked), options);
  predict_elsewhere(o, options);
  return o;
}

Result<ExportableStep> exportable_step(const trace::Trace& trace, const trace::Steps& steps,
                                       std::optional<std::int64_t> number, const std::vector<std::string>& whatifs) {
  FORETRACE_TRY(const std::vector<Use> uses, analysis::parse_uses(whatifs));
  FORETRACE_TRY(analysis::OpenStep step, analysis::open_step(trace, steps, number));
  if (!step.replayed) return forward(step.replayed);
  if (uses.empty()) return ExportableStep{std::move(*step.replayed), !step.graphs.embedded()};
  FORETRACE_TRY(const analysis::Baseline baseline, analysis::make_baseline(trace, number, std::nullopt));
  Prediction p = predict(baseline, uses, whatif::Detail::kStepOnly);
  if (!p.declined.empty()) return fail(ErrorCode::kDeclined, fmt::format("{}: {}", p.whatif, p.reason()));
  p.graph.step_name += " with " + p.whatif;
  return ExportableStep{analysis::replay_step(std::move(p.graph)), !step.graphs.embedded()};
}

}  // namespace foretrace::overview
