// How a prediction is made: changes are applied in order, the graph is verified after each, the changed step is simulated, scaled
// to the measured step, and given a band. No what-if does any of this itself.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

#include "foretrace/memory/memory.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "graph/gpu_work.hpp"
#include "whatif/job/job_models.hpp"
#include "whatif/model/bound.hpp"
#include "whatif/model/checked_commit.hpp"
#include "whatif/model/compiled.hpp"
#include "whatif/model/evidence.hpp"
#include "whatif/model/graph_facts.hpp"
#include "whatif/model/simulate_model.hpp"
#include "whatif/predict/bands.hpp"
#include "whatif/predict/predictor.hpp"
#include "whatif/rewrite/workspaces.hpp"

namespace foretrace::whatif {

namespace {

std::string worst_origin(const graph::Graph& g) {
  // Weighed by time: the least certain origin that carries at least a hundredth of the GPU's time.
  std::array<double, 4> time = {};
  double all = 0;
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t])) continue;
    time[static_cast<std::size_t>(g.origin[t])] += static_cast<double>(g.cost[t]);
    all += static_cast<double>(g.cost[t]);
  }
  for (std::size_t o = 4; o-- > 1;) {
    if (time[o] >= 0.01 * all) return std::string(to_string(static_cast<graph::Origin>(o)));
  }
  return std::string(to_string(graph::Origin::kMeasured));
}

// What other workers do for this one is no work of its GPU.
bool on_own_gpu(const Model& model, graph::TaskKind kind) {
  return graph::is_gpu(kind) && !(model.workers > 1 && kind == graph::TaskKind::kCollective);
}

Ns gpu_time_of(const Model& model, const simulate::SteadyRuns::Run& run) {
  Ns sum = 0;
  if (model.job) {  // the busiest rank's
    for (const auto& rank : model.job->ranks) {
      Ns own = 0;
      for (std::size_t t = 0; t < rank->graph.size(); ++t) {
        if (graph::is_gpu(rank->graph.kind[t])) own += rank->graph.cost[t];
      }
      sum = std::max(sum, own);
    }
    return sum;
  }
  // A graph that reaches into the next step holds some of its work twice: what begins in one period counts.
  if (const std::optional<ModelRuns::Period> period = ModelRuns::period(run)) {
    const graph::Graph& g = run.graph;
    for (std::size_t t = 0; t < g.size(); ++t) {
      const Ns start = run.timeline.start[t];
      if (on_own_gpu(model, g.kind[t]) && start >= period->begin && start < period->end) sum += g.cost[t];
    }
    return sum;
  }
  for (std::size_t t = 0; t < model.graph.size(); ++t) {
    if (on_own_gpu(model, model.graph.kind[t])) sum += model.graph.cost[t];
  }
  return sum;
}

TimedStep time_of(const Model& model, ModelRuns& runs) {
  const simulate::SteadyRuns::Run run = runs.run();
  TimedStep out{.step = run.timeline.step, .gpu_time = gpu_time_of(model, run)};
  const graph::Graph& g = run.graph;
  const bool communicates =
      std::any_of(g.kind.begin(), g.kind.end(), [](graph::TaskKind k) { return k == graph::TaskKind::kCollective; });
  if (!communicates) return out;
  const simulate::Breakdown parts = simulate::breakdown(g, run.timeline);
  out.communication = parts.communication / run.copies;
  out.exposed = parts.exposed_communication / run.copies;
  return out;
}

// What the calibrated baseline misses of the measured step is in its computation, and is missed after the change too, in
// proportion. Waiting for the network is no computation: it stays as simulated.
class Completion {
 public:
  Completion(const TimedStep& today, std::optional<Ns> measured) {
    const auto computed = static_cast<double>(today.step - today.exposed);
    if (measured && computed > 0) factor_ = std::max(0.0, static_cast<double>(*measured - today.exposed) / computed);
  }
  [[nodiscard]] Ns of(Ns simulated, Ns exposed) const {
    return exposed + std::llround(static_cast<double>(simulated - exposed) * factor_);
  }
  [[nodiscard]] double factor() const { return factor_; }
  [[nodiscard]] Ns part(Ns time) const { return std::llround(static_cast<double>(time) * factor_); }

 private:
  double factor_ = 1;
};

// What a reader has to know of a change that measured steps do not support: how far it was off, or that it was not measured.
std::string doubt_about(const WhatIf& whatif) {
  const PastErrors* past = past_errors_of(whatif.name);
  if (past == nullptr || !past->step_pct) return whatif.name + " is not validated against measurements";
  return fmt::format("{} was {:.1f} % off on average over {} measured rows, which widens its band", whatif.name,
                     *past->step_pct, past->rows);
}

}  // namespace

std::vector<std::string> doubts(const Use& use) {
  const WhatIf& whatif = *use.whatif;
  if (!whatif.validated) return {doubt_about(whatif)};
  std::vector<std::string> found;
  for (const std::string& part : whatif.unvalidated) {
    const std::size_t equals = part.find('=');
    const std::string parameter = part.substr(0, equals);
    const bool asked = equals == std::string::npos ? !use.parameters.text(parameter).empty()
                                                   : use.parameters.text(parameter) == part.substr(equals + 1);
    if (asked)
      found.push_back(fmt::format("{}:{} is not validated against measurements", whatif.name,
                                  equals == std::string::npos ? part + "=…" : part));
  }
  return found;
}

void keep_first(std::vector<std::string>& list) {
  std::vector<std::string> once;
  for (std::string& text : list) {
    if (std::find(once.begin(), once.end(), text) == once.end()) once.push_back(std::move(text));
  }
  list = std::move(once);
}

Status Predictor::check(const Model& base, bool changes) {
  if (base.trace != nullptr) {
    if (const std::string_view other = trace::other_accelerator(*base.trace); !other.empty()) {
      return fail(ErrorCode::kDeclined, fmt::format("this is the profile of a {}; foretrace has models of GPUs only. "
                                                    "`foretrace summary` and `foretrace export` show its timeline",
                                                    other));
    }
  }
  if (changes && !graph::has_gpu_work(base.graph)) {
    return fail(ErrorCode::kDeclined, std::string(graph::kNoGpuWork));
  }
  const auto computes = [](graph::TaskKind k) {
    return k == graph::TaskKind::kKernel || k == graph::TaskKind::kCollective;
  };
  if (changes && std::none_of(base.graph.kind.begin(), base.graph.kind.end(), computes)) {
    return fail(ErrorCode::kDeclined, "the step copies data to or from the GPU and runs no kernel there");
  }
  if (base.frozen_share() > kMostFrozenShare) {
    return fail(ErrorCode::kDeclined, fmt::format("{:.0f} % of this step are waits that nothing in the trace explains, "
                                                  "and no change would shorten them (`foretrace doctor` lists them)",
                                                  100 * base.frozen_share()));
  }
  return {};
}

namespace {

// Why a change has no effect on the GPU that later changes move the step to (TF32 on a V100); empty where it has one.
std::string no_effect_on_target(const Use& use, const std::string& target) {
  if (use.whatif->no_effect_on == nullptr || target.empty()) return {};
  const Result<hardware::Device> to = hardware::device_or_file(target);
  return to ? use.whatif->no_effect_on(*to) : std::string();
}

}  // namespace

std::string target_of(std::span<const Use> uses) {
  const auto moved =
      std::find_if(uses.rbegin(), uses.rend(), [](const Use& u) { return u.whatif->changes == Changes::kDevice; });
  return moved == uses.rend() ? std::string() : moved->parameters.text("to");
}

Result<Model> apply_use(Model model, const Use& use, const std::string& target, Prediction::Applied& how) {
  if (model.job) return apply_to_ranks(model, use, target, how);
  const auto begin = std::chrono::steady_clock::now();
  const WhatIf& whatif = *use.whatif;
  const auto declined = [&](std::string_view why) {
    return fail(ErrorCode::kDeclined, fmt::format("{}: {}", whatif.name, why));
  };
  if (std::string why = no_effect_on_target(use, target); !why.empty()) {
    model.not_modelled.push_back(std::move(why));
    how = {use.text, 0, 0};
    return model;
  }
  if (is_tensorflow(model) && !changes_machine(whatif)) {
    return declined("this is a TensorFlow program; changes of programs are known for PyTorch and JAX");
  }
  if (!whatif.whole_program.empty() && is_compiled(model)) return declined(whatif.whole_program);
  // A use that a program built itself (N workers of a search) knows what it asks for.
  if (whatif.already != nullptr && use.own == nullptr) {
    if (const std::string why = whatif.already(model, use.parameters); !why.empty()) return declined(why);
  }
  for (const Need need : whatif.needs) {
    if (const std::string why = missing(model, need); !why.empty()) return declined(why);
  }
  Draft draft(model.graph, model.trace, model.chains, *model.latencies);
  if (const Status applied = whatif.apply(model, draft, use.parameters); !applied) {
    return declined(applied.error().message);
  }
  if (draft.changed() == 0) return declined("nothing in this step would change");
  const std::uint64_t dropped_before = model.graph.notes.dropped_soft;
  Result<graph::Graph> changed = checked_commit(draft, model.works);
  if (!changed) return declined(changed.error().message);
  if (changed->notes.dropped_soft > dropped_before) {
    model.not_modelled.emplace_back("kernels of several streams competing for the GPU");
  }
  model.graph = std::move(*changed);
  model.facts = std::make_shared<const GraphFacts>(model.facts);
  model.applied.push_back({whatif.name, whatif.changes});
  if (!whatif.not_modelled.empty()) model.not_modelled.push_back(whatif.not_modelled);
  for (std::string& doubt : doubts(use)) {
    model.validated = false;
    model.not_modelled.push_back(std::move(doubt));
  }
  how = {use.text, draft.changed(), std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
  return model;
}

std::vector<Use> order_of_application(std::vector<Use> uses) {
  // A CUDA graph and other workers take the step as all of its work makes it.
  const auto around_the_work = [](const Use& use) {
    const Changes changes = use.whatif->changes;
    return changes == Changes::kLaunches || changes == Changes::kWorkers || changes == Changes::kNetwork;
  };
  const auto rank = [&](const Use& use) { return around_the_work(use) ? 2 : use.whatif->repeats_work ? 1 : 0; };
  if (std::none_of(uses.begin(), uses.end(), [](const Use& use) { return use.whatif->repeats_work; })) return uses;
  std::stable_sort(uses.begin(), uses.end(), [&](const Use& a, const Use& b) { return rank(a) < rank(b); });
  return uses;
}

Result<Model> apply_uses(const Model& base, const std::vector<Use>& given, std::vector<Prediction::Applied>* applied) {
  FORETRACE_TRY_VOID(Predictor::check(base, !given.empty()));
  const std::vector<Use> uses = order_of_application(given);
  Model model = base;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    Prediction::Applied how;
    FORETRACE_TRY(model, apply_use(std::move(model), uses[i], target_of(std::span(uses).subspan(i + 1)), how));
    if (applied != nullptr) applied->push_back(std::move(how));
  }
  return model;
}

namespace {

// The largest batch is a property of the step and the other changes, whatever factor was asked for: the memory of all
// changes but those of the batch, scaled from the traced batch on. (Scaling what was scaled to 1/1000 back would multiply
// what rounding left over.) Nothing when no batch is too large, as far as the curve shows.
std::optional<double> largest_batch(const Model& base, std::vector<Use> uses, double room) {
  std::erase_if(uses, [](const Use& use) { return use.whatif->changes == Changes::kBatch; });
  const Result<Model> others = apply_uses(base, uses);
  if (!others) return std::nullopt;
  const BatchMemory memory(fullest_rank(*others));
  const double x = memory::largest_batch([&](double factor) { return memory.at(factor); }, room);
  if (x >= memory::kLargestFactor) return std::nullopt;
  return x;
}

}  // namespace

void Predictor::describe_memory(Prediction& p, const Model& changed, const std::vector<Use>& uses,
                                Detail detail) const {
  if (!changed.memory) return;
  p.peak_bytes = memory::peak(*changed.memory).bytes;
  if (detail == Detail::kFull) {
    p.reserved_bytes = memory::reserved(*changed.memory, *p.peak_bytes);
    p.peak_parts = memory::composition(*changed.memory, *p.reserved_bytes);
  }
  const hardware::Device& device = changed.device;
  if (device.reported_gb <= 0) return;
  const double room = device.reported_gb * 1e9 - static_cast<double>(hardware::kDriverBytes);
  p.fits = p.reserved_bytes ? static_cast<double>(*p.reserved_bytes) <= room : memory::fits(*changed.memory, room);
  if (changed.samples != base_.samples && detail == Detail::kFull) p.largest_batch = largest_batch(base_, uses, room);
  if (device.name != base_.device.name && p.fits == false) {
    p.not_modelled.push_back(fmt::format("the step does not fit into {}: it takes {:.1f} of {:.0f} GB", device.name,
                                         static_cast<double>(p.reserved_bytes.value_or(*p.peak_bytes)) / 1e9,
                                         device.reported_gb));
  }
}

std::string_view Prediction::reason() const {
  const std::string_view name = std::string_view(whatif).substr(0, whatif.find(':'));
  const bool alone = whatif.find(" + ") == std::string::npos;
  std::string_view why = declined;
  if (alone && why.starts_with(name) && why.substr(name.size()).starts_with(": ")) why.remove_prefix(name.size() + 2);
  return why;
}

namespace {

// "amp + fused-optimizer"
std::string text_of(const std::vector<Use>& uses) {
  std::string text;
  for (const Use& use : uses) text += (text.empty() ? "" : " + ") + use.text;
  return text;
}

}  // namespace

Predictor::Predictor(const Model& base, std::optional<Ns> measured)
    : base_(base), measured_(measured), bounds_(base, measured) {
  ModelRuns runs(base);
  today_ = time_of(base_, runs);
  // Today's step keeps the bound too: streams may overlap more in the simulation than they did in the trace.
  if (!measured_) today_.step = std::max(today_.step, bounds_.of(base_).step);
}

Prediction Predictor::describe(const Model& changed, const std::vector<Use>& uses, Detail detail) const {
  Prediction p;
  p.whatif = text_of(uses);
  ModelRuns runs(changed);
  const TimedStep now = time_of(changed, runs);
  const Completion completed(today_, measured_);
  p.bound = bounds_.of(changed, completed.factor());
  const Ns predicted = std::max<Ns>(1, completed.of(now.step, now.exposed));
  p.bound.decided = p.bound.step > predicted;
  p.step = std::max(predicted, p.bound.step);
  // What the models missed of the step they missed of its band as well.
  const double raised = static_cast<double>(p.step) / static_cast<double>(predicted);
  p.speedup = static_cast<double>(measured_.value_or(today_.step)) / static_cast<double>(p.step);
  p.workers = changed.workers;
  p.replicas = changed.replicas;
  p.buckets = changed.buckets;
  p.communication = now.communication;
  p.exposed_communication = now.exposed;
  p.gpu_time = now.gpu_time;
  if (detail == Detail::kFull) {
    Band band = band_around(changed, runs, now.step, base_, today_.step);
    const auto lifted = [&](Ns time) -> Ns { return std::llround(raised * static_cast<double>(time)); };
    p.low = std::max<Ns>(0, lifted(completed.of(band.low, now.exposed)));
    p.high = std::max(p.step, lifted(completed.of(band.high, now.exposed)));
    for (BandPart& part : band.parts) {
      part.down = lifted(completed.part(part.down));
      part.up = lifted(completed.part(part.up));
    }
    p.band = std::move(band.parts);
    p.gpu_families = family_times(fullest_rank(changed));
    if (changed.job) p.ranks = rank_times(changed);
  }
  if (changed.job) p.fullest_rank = changed.job->ties->numbers[changed.job->fullest];
  p.not_modelled = changed.not_modelled;
  describe_memory(p, changed, uses, detail);
  const double busy = gpu_share(p.gpu_time, p.step);
  if (changed.device.name != base_.device.name && waits_for_cpu(busy)) {
    p.not_modelled.push_back(
        fmt::format("{}{}: the GPU has work for {:.0f} % of it", kBoundByCpu, changed.device.name, 100 * busy));
  }
  p.samples = changed.samples;
  p.validated = changed.validated;
  p.evidence = least_evidence(uses);
  p.origin = worst_origin(changed.graph);
  keep_first(p.not_modelled);
  return p;
}

Prediction predict(const Model& base, const std::vector<Use>& uses, std::optional<Ns> measured, Detail detail) {
  std::vector<Prediction::Applied> applied;
  Result<Model> changed = apply_uses(base, uses, &applied);
  Prediction p;
  if (changed) {
    p = Predictor(base, measured).describe(*changed, uses, detail);
    p.graph = std::move(changed->graph);
  } else {
    p.whatif = text_of(uses);
    p.declined = changed.error().message;
  }
  p.applied = std::move(applied);
  return p;
}

}  // namespace foretrace::whatif
