#include "search/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

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
    graph::Graph changed = draft.commit();
    if (Status sound = graph::verify(changed); !sound) {
      return fail(ErrorCode::kDeclined, fmt::format("{}: {}", use.whatif->name, sound.error().message));
    }
    out.model.graph = std::move(changed);
    out.model.applied.push_back(use.whatif->name);
  }
  if (out.model.memory) memory::recompute(*out.model.memory);
  return out;
}

double residual_of(const whatif::Model& base, std::optional<Ns> measured) {
  const Ns simulated = simulate::steady_state(base.graph).timeline.step;
  return measured && simulated > 0 ? static_cast<double>(*measured) / static_cast<double>(simulated) : 1.0;
}

namespace {

Evaluation evaluate(const whatif::Model& model, double residual, const Strategy& strategy) {
  Evaluation e;
  const auto declined = [&](const Error& error) {
    e.declined = error.message;
    return e;
  };
  const Result<std::vector<whatif::Use>> uses = uses_of(strategy);
  if (!uses) return declined(uses.error());
  const Result<Applied> applied = apply_uses(model, *uses);
  if (!applied) return declined(applied.error());
  const simulate::SteadyState run = simulate::steady_state(applied->model.graph);
  e.step = static_cast<Ns>(static_cast<double>(run.timeline.step) * residual);
  if (applied->model.memory) e.peak_bytes = applied->model.memory->peak_bytes;
  e.samples = applied->model.samples;
  return e;
}

}  // namespace

std::vector<Evaluation> evaluate_all(const whatif::Model& model, std::optional<Ns> measured,
                                     const std::vector<Strategy>& strategies, unsigned threads) {
  std::vector<Evaluation> out(strategies.size());
  const double residual = residual_of(model, measured);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < strategies.size(); i = next++) out[i] = evaluate(model, residual, strategies[i]);
  };
  const unsigned wanted = threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::jthread> others;
  for (std::size_t t = 1; t < std::min<std::size_t>(wanted, strategies.size()); ++t) others.emplace_back(work);
  work();
  others.clear();
  return out;
}

}  // namespace foretrace::search
