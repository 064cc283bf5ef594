#include "foretrace/search/optimize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "graph/gpu_work.hpp"
#include "search/communication.hpp"
#include "search/evaluate.hpp"
#include "search/explain.hpp"
#include "search/moves/strategy_move.hpp"
#include "whatif/dataflow/blocks.hpp"
#include "whatif/job/job_models.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::search {

namespace {

// "amp: no operation …" behind "amp:dtype=bf16": the name once.
std::string without_name(std::string_view why, std::string_view name) {
  if (why.starts_with(name) && why.substr(name.size()).starts_with(": ")) why.remove_prefix(name.size() + 2);
  return std::string(why);
}

// Rounds without a better strategy before the search ends: a change may pay off only together with a second one.
constexpr int kIdleRounds = 2;

struct State {
  Strategy strategy;
  Evaluation evaluation;
};

class Optimizer {
 public:
  Optimizer(Evaluator& evaluator, const OptimizeOptions& options)
      : model_(whatif::fullest_rank(evaluator.base().model)),
        evaluator_(evaluator),
        o_(options),
        begin_(std::chrono::steady_clock::now()),
        limit_(memory_limit(model_, options.memory_limit)),
        groups_(module_groups(model_)),
        job_(job_traits(evaluator.base().model)) {
    budget_ = o_.communication && o_.evaluations > 2 ? o_.evaluations - 2 : o_.evaluations;
    for (const whatif::BlockOfLayers& b : whatif::repeated_blocks(model_.graph)) blocks_.push_back(b.name);
  }

  Result<Optimized> run() {
    if (!graph::has_gpu_work(model_.graph)) {
      return fail(ErrorCode::kDeclined, std::string(graph::kNoGpuWork), "`foretrace doctor` says what the trace holds");
    }
    if (o_.memory_limit && !model_.memory) {
      return fail(ErrorCode::kDeclined, "the trace has no memory events, so it is unknown what fits",
                  "record with profile_memory=True");
    }
    Optimized out;
    out.memory_limit = limit_;
    Strategy as_it_is;
    as_it_is.communication = o_.communication;
    if (o_.communication) {
      FORETRACE_TRY(const whatif::Network network, network_of(*o_.communication, model_.device));
      gpus_per_node_ = network.gpus_per_node;
    }
    State today{as_it_is, evaluate({as_it_is}).front()};
    if (!today.evaluation.ok()) return fail(ErrorCode::kDeclined, today.evaluation.declined);
    as_it_is_ = as_it_is;
    out.baseline = today.evaluation.step;
    out.baseline_peak = today.evaluation.peak_bytes;
    today_ = today.evaluation;
    best_ = today;
    std::vector<State> beam = {today};
    for (const Strategy& s : o_.start) {
      const Evaluation e = evaluate({s}).front();
      if (!e.ok()) continue;
      seen_.insert(key_of(s));
      beam.push_back({s, e});
      if (better(e, best_.evaluation)) best_ = beam.back();
    }
    const State begun_with = best_;
    int idle = 0;
    while (idle < kIdleRounds && !over()) {
      beam = grow(beam);
      const State before = best_;
      for (const State& s : beam) {
        if (better(s.evaluation, best_.evaluation)) best_ = s;
      }
      idle = pays(before.evaluation, best_.evaluation) ? 0 : idle + 1;
      if (beam.empty()) break;
    }
    out.converged = !cut_;
    plan_gradients();
    simplify();
    // Without parts that gain little each, the answer may fall behind what the search began with.
    if (better(begun_with.evaluation, best_.evaluation)) best_ = begun_with;
    if (!fits(best_.evaluation)) {
      return fail(
          ErrorCode::kDeclined,
          fmt::format("no strategy found that reserves less than {:.2f} GB; the least is {:.2f} GB ({})",
                      static_cast<double>(limit_.value_or(0)) / 1e9,
                      static_cast<double>(best_.evaluation.taken_bytes().value_or(0)) / 1e9, describe(best_.strategy)),
          "a smaller batch, or more memory");
    }
    out.best = best_.strategy;
    out.evaluations = evaluated_;
    explain(evaluator_, as_it_is_, o_.explain, out);
    for (const auto& [what, why] : declined_) out.declined.push_back(fmt::format("{}: {}", what, why));
    return out;
  }

 private:
  bool over() {
    if (evaluated_ >= budget_) cut_ = true;
    if (o_.seconds > 0 &&
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count() > o_.seconds) {
      cut_ = true;
    }
    return cut_;
  }

  std::vector<Evaluation> evaluate(const std::vector<Strategy>& strategies) {
    evaluated_ += strategies.size();
    return o_.evaluate ? o_.evaluate(strategies) : evaluator_.evaluate(strategies);
  }

  // With a limit given by the user, a strategy of unknown memory does not fit.
  [[nodiscard]] bool fits(const Evaluation& e) const {
    if (!limit_) return true;
    return e.taken_bytes() ? *e.taken_bytes() <= *limit_ : !o_.memory_limit;
  }
  static std::int64_t size_of(const Evaluation& e) { return e.taken_bytes().value_or(INT64_MAX); }
  static double time_per_sample(const Evaluation& e) { return static_cast<double>(e.step) / e.samples; }
  // What fits before what does not; of what fits the faster, of what does not the smaller.
  [[nodiscard]] bool better(const Evaluation& a, const Evaluation& b) const {
    if (fits(a) != fits(b)) return fits(a);
    if (!fits(a)) return size_of(a) < size_of(b);
    return time_per_sample(a) < time_per_sample(b);
  }
  [[nodiscard]] bool pays(const Evaluation& before, const Evaluation& now) const {
    if (fits(before) != fits(now)) return fits(now);
    if (!fits(now)) return size_of(now) < size_of(before);
    return time_per_sample(now) < time_per_sample(before) * (1 - o_.least_gain);
  }

  // The moves, those first that attack the longest part of today's critical path.
  std::vector<StrategyMove> moves_in_order() {
    if (!order_.empty()) return order_;
    order_ = strategy_moves();
    simulate::Breakdown parts;
    evaluator_.predict({{as_it_is_}}, [&](std::size_t /*question*/, const whatif::Model& today) {
      const simulate::SteadyState run = simulate::steady_state(today.graph);
      parts = simulate::breakdown(run.graph_of(today.graph), run.timeline);
    });
    const auto weight = [&](const StrategyMove& m) -> Ns {
      switch (m.attacks) {
        case Attacks::kCpu:
          return parts.path_cpu;
        case Attacks::kGpu:
          return parts.path_gpu;
        case Attacks::kCommunication:
          return parts.path_communication;
        case Attacks::kMemory:
          return fits(today_) ? 0 : parts.step + 1;
      }
      return 0;
    };
    std::stable_sort(order_.begin(), order_.end(),
                     [&](const StrategyMove& a, const StrategyMove& b) { return weight(a) > weight(b); });
    return order_;
  }

  std::vector<State> grow(const std::vector<State>& beam) {
    std::vector<Strategy> candidates;
    for (const StrategyMove& move : moves_in_order()) {
      if (!move.whatif.empty() && !allowed(move.whatif)) continue;
      for (const State& s : beam) {
        std::vector<Strategy> near;
        move.propose(
            {model_, s.strategy, s.evaluation, limit_, blocks_, groups_, gpus_per_node_, o_.bucket_sizes, job_}, near);
        for (Strategy& candidate : near) {
          if (hopeless(candidate) || !seen_.insert(key_of(candidate)).second) continue;
          candidates.push_back(std::move(candidate));
        }
      }
    }
    if (evaluated_ + candidates.size() > budget_) {
      candidates.resize(budget_ > evaluated_ ? budget_ - evaluated_ : 0);
      cut_ = true;
    }
    // A time budget is looked at between small batches. Without one all go together: they share their beginnings.
    std::vector<State> found = beam;
    constexpr std::size_t kSmallBatch = 16;
    const std::size_t size = o_.seconds > 0 ? kSmallBatch : candidates.size();
    for (std::size_t i = 0; i < candidates.size(); i += size) {
      if (i > 0 && over()) break;
      const std::vector<Strategy> batch(
          candidates.begin() + static_cast<std::ptrdiff_t>(i),
          candidates.begin() + static_cast<std::ptrdiff_t>(std::min(candidates.size(), i + size)));
      const std::vector<Evaluation> results = evaluate(batch);
      for (std::size_t k = 0; k < batch.size(); ++k) {
        if (!results[k].ok()) {
          if (batch[k].whatifs.size() == 1) {
            const std::string& use = batch[k].whatifs.front();
            declined_.emplace(use, without_name(results[k].declined, name_of(use)));
          }
          continue;
        }
        found.push_back({batch[k], results[k]});
        if (better(results[k], shown_.value_or(today_))) shown_ = results[k], shown_name_ = describe(batch[k]);
      }
      if (o_.progress) o_.progress({evaluated_, shown_.value_or(today_).step, shown_name_});
    }
    return best_of(std::move(found));
  }

  // The best that fit, and as many that do not yet: those that would be fastest if what they are over could be saved at the
  // price paid so far. Half a mix of two ways to save memory is not good for anything, the whole may be the best there is.
  std::vector<State> best_of(std::vector<State> found) const {
    double price = 0;  // of a byte, in ns
    if (const auto today = today_.taken_bytes(); today && *today > 0) {
      price = static_cast<double>(today_.step) / static_cast<double>(*today);
      for (const State& s : found) {
        const auto taken = s.evaluation.taken_bytes();
        if (!fits(s.evaluation) || !taken || *taken >= *today) continue;
        const auto saved = static_cast<double>(*today - *taken);
        price = std::min(price, std::max(0.0, time_per_sample(s.evaluation) - time_per_sample(today_)) / saved);
      }
    }
    const auto when_saved = [&](const Evaluation& e) {
      const auto taken = e.taken_bytes();
      if (!taken) return 2 * time_per_sample(e);
      return time_per_sample(e) + price * static_cast<double>(*taken - *limit_);
    };
    std::vector<State> fitting;
    std::vector<State> over;
    for (State& s : found) (fits(s.evaluation) ? fitting : over).push_back(std::move(s));
    std::stable_sort(fitting.begin(), fitting.end(),
                     [&](const State& a, const State& b) { return better(a.evaluation, b.evaluation); });
    std::stable_sort(over.begin(), over.end(), [&](const State& a, const State& b) {
      return when_saved(a.evaluation) < when_saved(b.evaluation);
    });
    if (fitting.size() > o_.beam) fitting.resize(o_.beam);
    if (over.size() > o_.beam) over.resize(o_.beam);
    fitting.insert(fitting.end(), over.begin(), over.end());
    return fitting;
  }

  [[nodiscard]] bool allowed(std::string_view whatif) const {
    return o_.only.empty() || std::find(o_.only.begin(), o_.only.end(), whatif) != o_.only.end();
  }

  // A change that is declined alone is declined together with others: what it needs is in the trace or is not.
  [[nodiscard]] bool hopeless(const Strategy& s) const {
    return std::any_of(s.whatifs.begin(), s.whatifs.end(), [&](const std::string& t) {
      return !allowed(name_of(t)) || declined_.find(t) != declined_.end();
    });
  }

  // A model compiled as one hands over all its gradients at the end of the backward pass, unless DistributedDataParallel cuts
  // it at buckets of its own. A plan of other buckets is for blocks that are compiled one by one, and so it is written.
  [[nodiscard]] Strategy compiled_by_blocks(Strategy strategy) const {
    const std::string& compile = whatif::first_whatif_that_changes(whatif::Changes::kCompilation).name;
    std::string blocks;
    for (const whatif::BlockOfLayers& b : whatif::repeated_blocks(model_.graph))
      blocks += (blocks.empty() ? "" : "|") + b.name;
    for (std::string& use : strategy.whatifs) {
      if (use == compile && !blocks.empty()) use += ":layers=" + blocks;
    }
    return strategy;
  }

  // The best strategy's gradients, bucket by bucket: a free plan where it beats one size for all.
  void plan_gradients() {
    const auto& c = best_.strategy.communication;
    if (!c || c->workers < 2 || c->scheme != "ddp" || c->compression != "none" || !o_.bucket_sizes.empty() ||
        !allowed(bucket_size_move().whatif))
      return;
    Strategy candidate = compiled_by_blocks(best_.strategy);
    const Result<std::vector<whatif::Use>> uses = uses_of(candidate);
    if (!uses) return;
    const Result<whatif::Model> applied = whatif::apply_uses(model_, *uses);
    const Result<whatif::Network> network = network_of(*c, model_.device);
    if (!applied || !network) return;
    TensorOptions options;
    options.seed = o_.seed;
    options.stop = [this] { return o_.seconds > 0 && over(); };
    const Result<std::vector<PlannedBucket>> plan = plan_buckets(*applied, *c, *network, options);
    if (!plan) return;
    candidate.communication->buckets = *plan;
    if (evaluated_ >= o_.evaluations) return;
    const Evaluation e = evaluate({candidate}).front();
    if (e.ok() && pays(best_.evaluation, e)) best_ = {candidate, e};
  }

  // Removes changes that gain too little.
  void simplify() {
    while (best_.strategy.whatifs.size() > 1 && evaluated_ + best_.strategy.whatifs.size() <= o_.evaluations) {
      std::vector<Strategy> fewer;
      for (const std::string& use : best_.strategy.whatifs) fewer.push_back(with(best_.strategy, name_of(use), {}));
      const std::vector<Evaluation> results = evaluate(fewer);
      std::optional<State> next;
      for (std::size_t i = 0; i < fewer.size(); ++i) {
        if (!results[i].ok() || pays(results[i], best_.evaluation)) continue;
        if (!next || better(results[i], next->evaluation)) next = State{fewer[i], results[i]};
      }
      if (!next) return;
      best_ = *next;
    }
    if (best_.strategy.communication != as_it_is_.communication && evaluated_ < o_.evaluations) {
      Strategy plain = best_.strategy;
      plain.communication = as_it_is_.communication;
      const Evaluation e = evaluate({plain}).front();
      if (e.ok() && !pays(e, best_.evaluation)) best_ = {plain, e};
    }
    if (!pays(today_, best_.evaluation)) best_ = {as_it_is_, today_};
  }

  const whatif::Model& model_;
  Evaluator& evaluator_;
  const OptimizeOptions& o_;
  std::chrono::steady_clock::time_point begin_;
  std::optional<std::int64_t> limit_;
  std::vector<std::string> blocks_;
  std::vector<ModuleGroup> groups_;
  JobTraits job_;
  std::vector<StrategyMove> order_;
  Evaluation today_;
  State best_;
  Strategy as_it_is_;
  int gpus_per_node_ = 1;
  std::optional<Evaluation> shown_;
  std::string shown_name_ = "as it is";
  std::set<std::string> seen_;
  std::map<std::string, std::string> declined_;
  std::size_t evaluated_ = 0;
  std::size_t budget_ = 0;  ///< of the beam; what is left is for the plan of buckets and the last look at it
  bool cut_ = false;
};

}  // namespace

Result<Optimized> optimize(Evaluator& evaluator, const OptimizeOptions& options) {
  return Optimizer(evaluator, options).run();
}

// A small budget must not end with less than `advise` finds: the search begins with its combination, unless the caller says where.
Result<Optimized> optimize(const analysis::Baseline& base, const OptimizeOptions& options) {
  Evaluator evaluator(base, options.threads, memory_limit(base.model, options.memory_limit));
  if (!options.start.empty()) return optimize(evaluator, options);
  OptimizeOptions advice = options;
  advice.evaluations = evaluations_of_advice(base.model);
  advice.least_gain = AdviseOptions{}.least_gain;
  advice.seconds = options.seconds / 2;
  advice.communication.reset();
  advice.bucket_sizes.clear();
  advice.explain = false;
  OptimizeOptions search = options;
  search.seconds = options.seconds - advice.seconds;
  if (const Result<Optimized> known = optimize(evaluator, advice); known && !known->best.whatifs.empty()) {
    search.start.push_back(known->best);
    search.start.back().communication = options.communication;
  }
  return optimize(evaluator, search);
}

}  // namespace foretrace::search
