// advise over the example: rankings, combinations and limits, whatever the predictions are.

#include <gtest/gtest.h>

#include <algorithm>

#include "foretrace/report/report.hpp"
#include "foretrace/search/optimize.hpp"
#include "foretrace/trace/load.hpp"
#include "search/candidates.hpp"
#include "search/moves/strategy_move.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::search {
namespace {

const trace::Trace& example() {
  static const trace::Trace kTrace =
      trace::load(std::string(FORETRACE_SOURCE_DIR) + "/examples/resnet50-h200.json.gz").value();
  return kTrace;
}

const analysis::Baseline& baseline() {
  static const analysis::Baseline kBaseline = analysis::make_baseline(example(), std::nullopt, 71.6).value();
  return kBaseline;
}

Advised advised(const AdviseOptions& options = {}) { return advise(baseline(), options); }

TEST(Advise, RanksByGainAndKeepsWhatWasDeclined) {
  const Advised a = advised();
  EXPECT_EQ(a.alone.size(), candidates().size());
  const auto applicable = std::find_if(a.alone.begin(), a.alone.end(), [](const Advice& x) { return x.declined(); });
  EXPECT_TRUE(
      std::is_sorted(a.alone.begin(), applicable, [](const Advice& x, const Advice& y) { return x.gain > y.gain; }));
  EXPECT_TRUE(std::all_of(applicable, a.alone.end(), [](const Advice& x) { return x.declined(); }));
  // Attention in a ResNet: declined with a reason.
  EXPECT_TRUE(
      std::any_of(applicable, a.alone.end(), [](const Advice& x) { return x.prediction.whatif == "flash-attention"; }));
}

TEST(Advise, TogetherIsAtLeastAsGoodAsAnyAlone) {
  const Advised a = advised();
  ASSERT_TRUE(a.together.has_value());
  for (const Advice& x : a.alone) {
    if (!x.declined() && x.fits && x.prediction.samples == 1) {
      EXPECT_GE(a.together->gain, x.gain / 1.01) << x.prediction.whatif;
    }
  }
  EXPECT_EQ(a.together->prediction.samples, 1);
  EXPECT_GT(a.together->prediction.high, a.together->prediction.low);
  // Nobody rides along: without any one of them it is worse.
  for (std::size_t i = 0; a.together->uses.size() > 1 && i < a.together->uses.size(); ++i) {
    std::vector<whatif::Use> fewer = a.together->uses;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    const whatif::Prediction p = whatif::predict(baseline().model, fewer, baseline().figures.measured);
    EXPECT_LT(p.speedup, a.together->gain) << a.together->uses[i].text;
  }
}

TEST(Advise, TheSameForAnyNumberOfThreads) {
  const auto text = [](unsigned threads) {
    report::AdviseReport r;
    r.advised = advised({.threads = threads});
    return to_json(r);
  };
  EXPECT_EQ(text(1), text(5));
}

TEST(Advise, NothingIsProposedThatDoesNotFit) {
  const std::int64_t now = *baseline().figures.reserved_bytes;
  const Advised tight = advised({.memory_limit = now});
  for (const std::optional<Advice>* a : {&tight.together, &tight.larger_batch}) {
    if (a->has_value()) {
      EXPECT_LE(*(*a)->prediction.reserved_bytes, now);
    }
  }
  for (const Advice& x : tight.alone) {
    if (x.declined()) continue;
    EXPECT_EQ(x.fits, *x.prediction.reserved_bytes <= now) << x.prediction.whatif;
  }
}

// Less than the step takes now: something that saves memory is proposed, although it costs time.
TEST(Advise, WhatSavesMemoryIsProposedWhereTheStepDoesNotFit) {
  const std::int64_t now = *baseline().figures.peak_bytes;
  const Advised smaller = advised({.memory_limit = now / 2});
  ASSERT_TRUE(smaller.together.has_value());
  EXPECT_LE(*smaller.together->prediction.reserved_bytes, now / 2);
}

TEST(Advise, NothingFitsIntoNothing) {
  const Advised none = advised({.memory_limit = 1});
  EXPECT_FALSE(none.together.has_value());
  for (const Advice& x : none.alone) EXPECT_FALSE(!x.declined() && x.prediction.peak_bytes && x.fits);
}

TEST(Advise, OrderIsByStage) {
  Strategy sorted;
  for (const char* text : {"cuda-graph", "compile", "flash-attention", "fused-optimizer", "amp", "batch:x=2"}) {
    sorted = with(sorted, name_of(text), text);
  }
  std::string names;
  for (const std::string& text : sorted.whatifs) names += std::string(name_of(text)) + " ";
  EXPECT_EQ(names, "batch amp flash-attention fused-optimizer compile cuda-graph ");
}

TEST(Advise, TriesWhatPeopleSwitchOn) {
  std::vector<std::string> names;
  for (const whatif::Use& u : candidates()) names.push_back(u.whatif->name);
  for (const char* name : {"accumulate", "amp", "batch", "channels-last", "checkpoint", "cuda-graph", "flash-attention",
                           "foreach-optimizer", "fused-optimizer", "no-sync", "tf32"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
}

TEST(Advise, EveryCandidateSaysHowToSwitchItOn) {
  for (const whatif::Use& u : candidates()) EXPECT_FALSE(u.whatif->code.empty()) << u.text;
}

}  // namespace
}  // namespace foretrace::search
