#include "search/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/workers.hpp"
#include "search/communication.hpp"
#include "whatif/checked_commit.hpp"

namespace foretrace::search {

Result<Applied> apply_uses(const whatif::Model& base, const std::vector<whatif::Use>& uses) {
  Applied out{base};
  for (const whatif::Use& use : uses) {
    whatif::Draft draft(out.model.graph, out.model.trace, out.model.chains);
    if (Status applied = use.whatif->apply(out.model, draft, use.parameters); !applied) {
      return fail(ErrorCode::kDeclined, fmt::format("{}: {}", use.whatif->name, applied.error().message));
    }
    if (draft.changed() == 0) {
      return fail(ErrorCode::kDeclined, fmt::format("{}: nothing in this step would change", use.whatif->name));
    }
    Result<graph::Graph> changed = whatif::checked_commit(draft);
    if (!changed) {
      return fail(ErrorCode::kDeclined, fmt::format("{}: {}", use.whatif->name, changed.error().message));
    }
    out.model.graph = std::move(*changed);
    out.model.applied.push_back(use.whatif->name);
  }
  if (out.model.memory) memory::recompute(*out.model.memory);
  return out;
}

std::optional<std::int64_t> memory_limit(const whatif::Model& model, std::optional<std::int64_t> asked) {
  if (asked || model.device.memory_gb <= 0) return asked;
  return static_cast<std::int64_t>(model.device.memory_gb * 1e9) - hardware::kDriverBytes;
}

double residual_of(const whatif::Model& base, std::optional<Ns> measured) {
  const Ns simulated = simulate::steady_state(base.graph).timeline.step;
  return measured && simulated > 0 ? static_cast<double>(*measured) / static_cast<double>(simulated) : 1.0;
}

namespace {

whatif::Prediction declined(const Strategy& strategy, const Error& error) {
  whatif::Prediction p;
  p.whatif = describe(strategy);
  p.declined = error.message;
  return p;
}

// N workers: the changed step of one of them, and the scheme on top.
Result<whatif::Prediction> predict_workers(const whatif::Model& base, double residual, const Strategy& strategy,
                                           const std::vector<whatif::Use>& uses, whatif::Detail detail) {
  const Communication& c = *strategy.communication;
  FORETRACE_TRY(const Applied applied, apply_uses(base, uses));
  FORETRACE_TRY(const Network network, network_of(c, base.device));
  FORETRACE_TRY(const whatif::Gradients gradients, whatif::find_gradients(applied.model));
  FORETRACE_TRY(const whatif::Strategy scheme, scheme_of(c, gradients));
  std::optional<Ns> one;
  if (residual != 1) {
    const Ns simulated = simulate::steady_state(applied.model.graph).timeline.step;
    one = static_cast<Ns>(static_cast<double>(simulated) * residual);
  }
  FORETRACE_TRY(whatif::ScalePrediction s, whatif::predict_scale(applied.model, one, scheme, network.cluster, detail));
  whatif::Prediction p;
  p.whatif = describe(strategy);
  p.step = s.step;
  p.low = s.low;
  p.high = s.high;
  p.peak_bytes = s.peak_bytes;
  p.samples = applied.model.samples;
  p.origin = s.origin;
  p.validated = s.validated;
  p.not_modelled = s.not_modelled;
  for (const whatif::Use& use : uses) {
    if (!use.whatif->not_modelled.empty()) p.not_modelled.push_back(use.whatif->not_modelled);
    p.validated = p.validated && use.whatif->validated;
  }
  for (std::size_t t = 0; t < s.graph.size(); ++t) {
    if (graph::is_gpu(s.graph.kind[t]) && s.graph.kind[t] != graph::TaskKind::kCollective)
      p.gpu_time += s.graph.cost[t];
  }
  p.graph = std::move(s.graph);
  return p;
}

whatif::Prediction predict_with(const whatif::Model& model, std::optional<Ns> measured, double residual,
                                const Strategy& strategy, whatif::Detail detail) {
  const Result<std::vector<whatif::Use>> uses = uses_of(strategy);
  if (!uses) return declined(strategy, uses.error());
  if (!strategy.communication || strategy.communication->workers < 2) {
    return whatif::predict(model, *uses, measured, detail);
  }
  Result<whatif::Prediction> p = predict_workers(model, residual, strategy, *uses, detail);
  if (!p) return declined(strategy, p.error());
  if (detail == whatif::Detail::kFull && p->step > 0) {  // against one worker's step: N of them do N times the work
    const Ns one = measured.value_or(simulate::steady_state(model.graph).timeline.step);
    p->speedup = static_cast<double>(one) / static_cast<double>(p->step);
  }
  return std::move(*p);
}

}  // namespace

whatif::Prediction predict_strategy(const whatif::Model& model, std::optional<Ns> measured, const Strategy& strategy,
                                    whatif::Detail detail) {
  return predict_with(model, measured, residual_of(model, measured), strategy, detail);
}

std::vector<whatif::Prediction> predict_all(const whatif::Model& model, std::optional<Ns> measured,
                                            const std::vector<Strategy>& strategies, whatif::Detail detail,
                                            unsigned threads) {
  std::vector<whatif::Prediction> out(strategies.size());
  const double residual = residual_of(model, measured);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < strategies.size(); i = next++) {
      out[i] = predict_with(model, measured, residual, strategies[i], detail);
      // Graphs of many predictions would fill the memory; the one that is wanted is made again.
      out[i].graph = {};
    }
  };
  const unsigned wanted = threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
  run_workers(static_cast<unsigned>(std::min<std::size_t>(wanted, strategies.size())), work,
              [&] { next = strategies.size(); });
  return out;
}

std::vector<Evaluation> evaluate_all(const whatif::Model& model, std::optional<Ns> measured,
                                     const std::vector<Strategy>& strategies, unsigned threads) {
  std::vector<Evaluation> out;
  for (whatif::Prediction& p : predict_all(model, measured, strategies, whatif::Detail::kStepOnly, threads)) {
    out.push_back({std::move(p.declined), p.step, p.peak_bytes, p.samples});
  }
  return out;
}

}  // namespace foretrace::search
