#include "search/evaluate.hpp"

#include <algorithm>
#include <numeric>
#include <span>

#include "base/workers.hpp"
#include "foretrace/memory/memory.hpp"
#include "plan/stack.hpp"
#include "search/communication.hpp"

namespace foretrace::search {

using whatif::Prediction;
using whatif::Use;

std::optional<std::int64_t> memory_limit(const whatif::Model& model, std::optional<std::int64_t> asked) {
  if (asked || model.device.reported_gb <= 0) return asked;
  return static_cast<std::int64_t>(model.device.reported_gb * 1e9) - hardware::kDriverBytes;
}

Result<std::vector<Use>> all_uses(const whatif::Model& model, const Strategy& strategy) {
  FORETRACE_TRY(std::vector<Use> uses, uses_of(strategy));
  if (strategy.communication && strategy.communication->workers > 1) {
    FORETRACE_TRY(Use workers, use_of(*strategy.communication, model.device));
    uses.push_back(std::move(workers));
  }
  return whatif::order_of_application(std::move(uses));
}

Prediction predict_stack(const analysis::Baseline& base, const std::vector<Use>& uses) {
  return plan::predict(base, uses);
}

Prediction predict_strategy(const analysis::Baseline& base, const Strategy& strategy, whatif::Detail detail) {
  graph::Graph graph;
  const auto keep_graph = [&](std::size_t, const whatif::Model& changed) { graph = changed.graph; };
  Prediction out = std::move(Evaluator(base, 1, std::nullopt).predict({{strategy, detail}}, keep_graph).front());
  out.graph = std::move(graph);
  return out;
}

std::vector<Evaluation> evaluate_all(const analysis::Baseline& base, const std::vector<Strategy>& strategies,
                                     unsigned threads) {
  return Evaluator(base, threads, 0).evaluate(strategies);
}

std::optional<std::int64_t> Evaluator::reserved_bytes(const whatif::Model& changed) const {
  if (!limit_ || !changed.memory) return std::nullopt;
  const std::int64_t peak = memory::peak(*changed.memory).bytes;
  if (memory::surely_fits(peak, static_cast<double>(*limit_))) return std::nullopt;
  return memory::reserved(*changed.memory, peak);
}

Evaluator::Applied Evaluator::apply(const whatif::SharedModel& before, const Use& use,
                                    const std::string& target) const {
  Applied out;
  Result<whatif::Model> changed = whatif::apply_use(before ? *before : base_.model, use, target, out.how);
  if (changed) {
    out.model = std::make_shared<const whatif::Model>(std::move(*changed));
  } else {
    out.declined = changed.error().message;
  }
  return out;
}

// The first thread that needs a beginning computes it; the others wait for that one. A computing thread never waits, so no
// two threads can wait for each other.
Evaluator::Applied Evaluator::shared(const std::string& beginning, const std::function<Applied()>& compute) {
  std::unique_lock lock(mutex_);
  const auto [at, is_new] = kept_.try_emplace(beginning, Kept{{}, oldest_first_.end()});
  if (!is_new) {
    Kept& kept = at->second;
    if (kept.place != oldest_first_.end()) oldest_first_.splice(oldest_first_.end(), oldest_first_, kept.place);
    const std::shared_future<Applied> applied = kept.applied;
    lock.unlock();
    return applied.get();
  }
  std::packaged_task<Applied()> task(compute);
  const std::shared_future<Applied> applied = at->second.applied = task.get_future().share();
  lock.unlock();
  task();
  lock.lock();
  if (!applied.get().model) return applied.get();  // a reason is small: it stays
  kept_tasks_ += applied.get().model->graph.size();
  at->second.place = oldest_first_.insert(oldest_first_.end(), beginning);
  while (kept_tasks_ > keep_tasks_) {
    const auto oldest = kept_.find(oldest_first_.front());
    kept_tasks_ -= oldest->second.applied.get().model->graph.size();
    kept_.erase(oldest);
    oldest_first_.pop_front();
  }
  return applied.get();
}

Prediction Evaluator::answer(const Question& question, std::size_t number, const Look& look) {
  Prediction out;
  const Result<std::vector<Use>> uses = all_uses(base_.model, question.strategy);
  const Status possible =
      uses ? whatif::Predictor::check(base_.model, !uses->empty()) : Status(tl::unexpected(uses.error()));
  if (!possible) {
    out.declined = possible.error().message;
    return out;
  }
  if (plan::has_stages(*uses)) return plan::predict(base_, *uses);  // several GPUs, none of which is the changed step
  whatif::SharedModel model;                                        // null: nothing changed yet
  std::vector<Prediction::Applied> applied;
  std::string beginning;
  bool shareable = true;
  for (std::size_t i = 0; i < uses->size(); ++i) {
    const Use& use = (*uses)[i];
    const std::string target =
        use.whatif->no_effect_on != nullptr ? whatif::target_of(std::span(*uses).subspan(i + 1)) : "";
    beginning += use.text + '\n' + target + '\n';
    shareable = shareable && !use.own;  // a change made for one question may share its text with another
    const auto compute = [&] { return apply(model, use, target); };
    Applied next = shareable ? shared(beginning, compute) : compute();
    if (!next.how.text.empty()) applied.push_back(std::move(next.how));
    if (!next.model) {
      out.declined = std::move(next.declined);
      out.applied = std::move(applied);
      return out;
    }
    model = std::move(next.model);
  }
  const whatif::Model& changed = model ? *model : base_.model;
  out = predictor_.describe(changed, *uses, question.detail);
  out.applied = std::move(applied);
  if (look) look(number, changed);
  return out;
}

std::vector<Prediction> Evaluator::predict(const std::vector<Question>& questions, const Look& look) {
  // Strategies that begin alike follow each other, so that what they share is still kept.
  std::vector<std::size_t> order(questions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return questions[a].strategy.whatifs < questions[b].strategy.whatifs;
  });
  std::vector<std::optional<std::int64_t>> reserved(questions.size());
  std::vector<Prediction> answers(questions.size());
  for_each_index(questions.size(), threads_, [&](std::size_t n) {
    const std::size_t q = order[n];
    answers[q] = answer(questions[q], q, [&](std::size_t number, const whatif::Model& changed) {
      if (questions[q].detail != whatif::Detail::kFull) reserved[q] = reserved_bytes(changed);
      if (look) look(number, changed);
    });
    answers[q].whatif = describe(questions[q].strategy);
  });
  for (std::size_t q = 0; q < questions.size(); ++q) {
    const Prediction& p = answers[q];
    known_.try_emplace(key_of(questions[q].strategy), Evaluation{p.declined, p.step, p.peak_bytes, p.samples,
                                                                 p.reserved_bytes ? p.reserved_bytes : reserved[q]});
  }
  return answers;
}

std::vector<Evaluation> Evaluator::evaluate(const std::vector<Strategy>& strategies) {
  std::vector<Question> unknown;
  for (const Strategy& s : strategies) {
    if (!known_.contains(key_of(s))) unknown.push_back({s});
  }
  predict(unknown);
  std::vector<Evaluation> out;
  for (const Strategy& s : strategies) out.push_back(known_.at(key_of(s)));
  return out;
}

}  // namespace foretrace::search
