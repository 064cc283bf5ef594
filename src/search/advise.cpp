#include "foretrace/search/advise.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

namespace foretrace::search {

using whatif::Detail;
using whatif::Prediction;
using whatif::Stage;
using whatif::Use;

namespace {

// So many changes pay in no real step; a bound on a loop that ends by itself.
constexpr std::size_t kMostTogether = 12;
// Pairs are many. Of large steps only the most promising are tried, so that the answer takes seconds: tasks simulated in
// all pairs of a round, and the fewest pairs tried anyway. A bound in tasks gives every machine the same answer.
constexpr std::size_t kTasksInPairs = 20'000'000;
constexpr std::size_t kFewestPairs = 10;

using Stack = std::vector<Use>;

class Adviser {
 public:
  Adviser(const whatif::Model& model, std::optional<Ns> measured, const AdviseOptions& options)
      : model_(model), measured_(measured), options_(options) {
    if (options.memory_limit) {
      limit_ = options.memory_limit;
    } else if (model.device.memory_gb > 0) {
      limit_ = static_cast<std::int64_t>(model.device.memory_gb * 1e9) - hardware::kDriverBytes;
    }
  }

  Advised run() {
    Advised out;
    out.memory_limit = limit_;
    Stack all = candidates();
    std::vector<Stack> singles;
    for (const Use& use : all) singles.push_back({use});
    out.alone = evaluate(singles, Detail::kFull);
    std::stable_sort(out.alone.begin(), out.alone.end(), [](const Advice& a, const Advice& b) {
      if (a.declined() != b.declined()) return b.declined();
      return a.gain > b.gain;
    });
    for (const Advice& a : out.alone) {
      if (!a.declined()) usable_.push_back(a.uses.front());
    }
    const Advice best = combine();
    if (!best.uses.empty()) out.together = in_full(best.uses);
    out.larger_batch = with_larger_batch(best);
    out.tried = tried_;
    return out;
  }

 private:
  std::vector<Advice> evaluate(const std::vector<Stack>& stacks, Detail detail) {
    std::vector<Prediction> predictions = predict_all(model_, stacks, measured_, detail, options_.threads);
    std::vector<Advice> out(stacks.size());
    for (std::size_t i = 0; i < stacks.size(); ++i) {
      Advice& a = out[i];
      a.uses = stacks[i];
      a.prediction = std::move(predictions[i]);
      a.prediction.graph = {};
      for (const Use& use : a.uses) a.effort = std::max(a.effort, use.whatif->effort);
      a.gain = a.declined() ? 0 : a.prediction.speedup * a.prediction.samples;
      a.fits = !limit_ || !a.prediction.peak_bytes || *a.prediction.peak_bytes <= *limit_;
    }
    tried_ += stacks.size();
    if (options_.progress) options_.progress("trying changes", tried_, 0);
    return out;
  }

  Advice in_full(const Stack& uses) { return std::move(evaluate({uses}, Detail::kFull).front()); }

  static bool good(const Advice& a) { return !a.declined() && a.fits; }

  static bool holds(const Stack& stack, const Use& use) {
    return std::any_of(stack.begin(), stack.end(), [&](const Use& s) { return s.whatif == use.whatif; });
  }

  // Another batch is another job: it is asked for separately. What only saves memory never joins for its speed.
  [[nodiscard]] Stack joinable(const Stack& chosen) const {
    Stack out;
    for (const Use& use : usable_) {
      if (use.whatif->stage != Stage::kBatch && !holds(chosen, use)) out.push_back(use);
    }
    return out;
  }

  static const Advice* best_of(const std::vector<Advice>& tried) {
    const Advice* best = nullptr;
    for (const Advice& a : tried) {
      if (good(a) && (best == nullptr || a.gain > best->gain)) best = &a;
    }
    return best;
  }

  // `chosen` with each of the additions; the best when it pays.
  std::optional<Advice> extended(const Advice& chosen, const std::vector<Stack>& additions) {
    std::vector<Stack> stacks;
    for (const Stack& more : additions) {
      Stack stack = chosen.uses;
      stack.insert(stack.end(), more.begin(), more.end());
      stacks.push_back(in_order(std::move(stack)));
    }
    std::vector<Advice> tried = evaluate(stacks, Detail::kStepOnly);
    const Advice* best = best_of(tried);
    const auto added = static_cast<double>(additions.empty() ? 1 : additions.front().size());
    // A step that does not fit has to change, whatever that costs.
    const double wanted = chosen.fits ? chosen.gain * (1 + options_.least_gain * added) : 0;
    if (best == nullptr || best->gain < wanted) return std::nullopt;
    return *best;
  }

  // `rest` is in order of gain, so pairs of the best come first.
  [[nodiscard]] std::vector<Stack> pairs_of(const Stack& rest) const {
    const std::size_t most = std::max(kFewestPairs, kTasksInPairs / std::max<std::size_t>(1, model_.graph.size()));
    std::vector<Stack> pairs;
    for (std::size_t sum = 1; sum + 2 < 2 * rest.size() && pairs.size() < most; ++sum) {
      for (std::size_t i = 0; 2 * i < sum && pairs.size() < most; ++i) {
        const std::size_t j = sum - i;
        if (j < rest.size() && rest[i].whatif != rest[j].whatif) pairs.push_back({rest[i], rest[j]});
      }
    }
    return pairs;
  }

  Advice combine() {
    Advice chosen;  // nothing yet: the step as it is
    chosen.fits = !limit_ || !model_.memory || model_.memory->peak_bytes <= *limit_;
    while (chosen.uses.size() < kMostTogether) {
      const Stack rest = joinable(chosen.uses);
      std::vector<Stack> singles;
      for (const Use& use : rest) singles.push_back({use});
      std::optional<Advice> next = extended(chosen, singles);
      if (!next) next = extended(chosen, pairs_of(rest));
      if (!next) break;
      chosen = std::move(*next);
    }
    return without_passengers(std::move(chosen));
  }

  // A later change may have taken over what an earlier one gave: TF32 beside mixed precision.
  Advice without_passengers(Advice chosen) {
    while (chosen.uses.size() > 1) {
      std::vector<Stack> fewer;
      for (std::size_t i = 0; i < chosen.uses.size(); ++i) {
        Stack stack = chosen.uses;
        stack.erase(stack.begin() + static_cast<std::ptrdiff_t>(i));
        fewer.push_back(std::move(stack));
      }
      std::vector<Advice> tried = evaluate(fewer, Detail::kStepOnly);
      const Advice* best = best_of(tried);
      if (best == nullptr || best->gain * (1 + options_.least_gain) < chosen.gain) break;
      chosen = *best;
    }
    return chosen;
  }

  // The combination at each larger batch; where that does not fit, with each change that saves memory.
  std::optional<Advice> with_larger_batch(const Advice& chosen) {
    // Nobody can say whether it fits.
    if (!model_.memory) return std::nullopt;
    std::vector<Stack> stacks;
    for (const Use& batch : usable_) {
      if (batch.whatif->name != "batch") continue;
      Stack stack = chosen.uses;
      stack.push_back(batch);
      stacks.push_back(in_order(stack));
      for (const Use& saver : usable_) {
        if (saver.whatif->stage != Stage::kMemory || holds(stack, saver)) continue;
        Stack saving = stack;
        saving.push_back(saver);
        stacks.push_back(in_order(saving));
      }
    }
    std::vector<Advice> tried = evaluate(stacks, Detail::kStepOnly);
    const Advice* best = best_of(tried);
    if (best == nullptr || best->gain < std::max(chosen.gain, 1.0) * (1 + options_.least_gain)) return std::nullopt;
    return in_full(best->uses);
  }

  const whatif::Model& model_;
  std::optional<Ns> measured_;
  const AdviseOptions& options_;
  std::optional<std::int64_t> limit_;
  Stack usable_;
  std::size_t tried_ = 0;
};

}  // namespace

std::vector<Use> candidates() {
  std::vector<Use> uses;
  for (const whatif::WhatIf& w : whatif::catalogue()) {
    for (const std::string& text : w.advise) {
      Result<Use> use = whatif::parse_use(text);
      FORETRACE_CHECK(use.has_value());
      uses.push_back(std::move(*use));
    }
  }
  return uses;
}

std::vector<Use> in_order(std::vector<Use> uses) {
  std::stable_sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) {
    if (a.whatif->stage != b.whatif->stage) return a.whatif->stage < b.whatif->stage;
    return a.whatif->name < b.whatif->name;
  });
  return uses;
}

std::vector<Prediction> predict_all(const whatif::Model& model, const std::vector<Stack>& stacks,
                                    std::optional<Ns> measured, Detail detail, unsigned threads) {
  std::vector<Prediction> out(stacks.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < stacks.size(); i = next++) {
      out[i] = whatif::predict(model, stacks[i], measured, detail);
      // Graphs of many predictions would fill the memory; the one that is wanted is made again.
      out[i].graph = {};
    }
  };
  const unsigned wanted = threads != 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> others;
  for (unsigned t = 1; t < std::min<std::size_t>(wanted, stacks.size()); ++t) others.emplace_back(work);
  work();
  others.clear();
  return out;
}

Advised advise(const whatif::Model& model, std::optional<Ns> measured, const AdviseOptions& options) {
  return Adviser(model, measured, options).run();
}

}  // namespace foretrace::search
