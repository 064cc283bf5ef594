// Strategies that share their beginnings are answered as each of them alone would be.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/trace/load.hpp"
#include "search/evaluate.hpp"

namespace foretrace::test {
namespace {

using search::Strategy;
using whatif::Detail;
using whatif::Prediction;

class Tree : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Result<trace::Trace> loaded = trace::load(FORETRACE_SOURCE_DIR "/examples/resnet50-h200.json.gz");
    ASSERT_TRUE(loaded.has_value());
    recorded = new trace::Trace(std::move(*loaded));
    Result<analysis::Baseline> made = analysis::make_baseline(*recorded, std::nullopt, 71.6);
    ASSERT_TRUE(made.has_value());
    baseline = new analysis::Baseline(std::move(*made));
    search::Communication workers;
    workers.workers = 8;
    workers.fabric = "DGX-H100";
    for (const Strategy& s : std::vector<Strategy>{
             {{}, {}},
             {{"amp:dtype=bf16", "fused-optimizer", "compile"}, {}},
             {{"amp:dtype=bf16", "fused-optimizer", "cuda-graph"}, {}},
             {{"amp:dtype=bf16"}, {}},
             {{"batch:x=2", "amp:dtype=bf16"}, {}},
             {{"amp:dtype=bf16", "flash-attention", "cuda-graph"}, {}},  // no attention: declined, and all behind it
             {{"amp:dtype=bf16", "flash-attention"}, {}},
             {{"amp:dtype=bf16", "nothing-of-this-name"}, {}},
             {{"amp:dtype=bf16"}, {}},                 // a second time
             {{"tf32", "gpu:to=V100-SXM2-16GB"}, {}},  // tf32 has no effect there
             {{"tf32", "gpu:to=A100-SXM4-80GB"}, {}},  // and has one here
             {{"amp:dtype=bf16"}, workers},
             {{"amp:dtype=bf16", "fused-optimizer"}, workers},
         }) {
      questions.push_back({s, questions.size() % 2 == 0 ? Detail::kFull : Detail::kStepOnly});
      alone.push_back(one_by_one(s, questions.back().detail));
    }
  }
  static void TearDownTestSuite() {
    questions.clear();
    alone.clear();
    delete baseline;
    delete recorded;
  }

  // The list of changes, without anything shared.
  static Prediction one_by_one(const Strategy& s, Detail detail) {
    const Result<std::vector<whatif::Use>> uses = search::all_uses(baseline->model, s);
    Prediction p;
    if (uses) {
      p = analysis::predict(*baseline, *uses, detail);
    } else {
      p.declined = uses.error().message;
    }
    p.whatif = search::describe(s);
    return p;
  }
  static void expect_as_alone(const std::vector<Prediction>& together) {
    ASSERT_EQ(together.size(), alone.size());
    for (std::size_t q = 0; q < alone.size(); ++q) {
      const Prediction& a = together[q];
      const Prediction& b = alone[q];
      EXPECT_EQ(a.whatif, b.whatif);
      ASSERT_EQ(a.applied.size(), b.applied.size());
      for (std::size_t i = 0; i < a.applied.size(); ++i) EXPECT_EQ(a.applied[i].text, b.applied[i].text);
      EXPECT_EQ(a.declined, b.declined) << b.whatif;
      EXPECT_EQ(a.step, b.step) << b.whatif;
      EXPECT_EQ(a.low, b.low) << b.whatif;
      EXPECT_EQ(a.high, b.high) << b.whatif;
      EXPECT_EQ(a.gpu_time, b.gpu_time) << b.whatif;
      EXPECT_EQ(a.peak_bytes, b.peak_bytes) << b.whatif;
      EXPECT_EQ(a.largest_batch, b.largest_batch) << b.whatif;
      EXPECT_EQ(a.exposed_communication, b.exposed_communication) << b.whatif;
      EXPECT_EQ(a.origin, b.origin) << b.whatif;
      EXPECT_EQ(a.not_modelled, b.not_modelled) << b.whatif;
    }
  }

  static trace::Trace* recorded;
  static analysis::Baseline* baseline;
  static std::vector<search::Evaluator::Question> questions;
  static std::vector<Prediction> alone;
};
trace::Trace* Tree::recorded = nullptr;
analysis::Baseline* Tree::baseline = nullptr;
std::vector<search::Evaluator::Question> Tree::questions = {};
std::vector<Prediction> Tree::alone = {};

TEST_F(Tree, AnswersAsEachStrategyAlone) {
  ASSERT_THAT(alone[5].declined, ::testing::HasSubstr("flash-attention"));
  // Whatever is kept between two calls: nothing, one model, all of them.
  for (const std::size_t keep : {std::size_t{0}, baseline->model.graph.size() + 1, std::size_t{10'000'000}}) {
    search::Evaluator evaluator(*baseline, 4, std::nullopt, keep);
    for (int round = 0; round < 2; ++round) expect_as_alone(evaluator.predict(questions));
  }
}

TEST_F(Tree, ShowsTheModelBehindEachAnswer) {
  search::Evaluator evaluator(*baseline, 3, std::nullopt);
  std::vector<std::size_t> applied(questions.size(), SIZE_MAX);
  evaluator.predict(questions, [&](std::size_t q, const whatif::Model& m) { applied[q] = m.applied.size(); });
  for (std::size_t q = 0; q < questions.size(); ++q) {
    const Strategy& s = questions[q].strategy;
    const std::size_t all = s.whatifs.size() + (s.communication ? 1 : 0);
    if (alone[q].declined.empty()) {
      EXPECT_LE(applied[q], all) << q;
    } else {
      EXPECT_EQ(applied[q], SIZE_MAX) << q;
    }
  }
}

TEST_F(Tree, AnEvaluatorRemembersWhatItWasToldInFull) {
  search::Evaluator evaluator(*baseline, 2, std::nullopt);
  evaluator.predict(questions);
  std::vector<Strategy> strategies;
  for (const search::Evaluator::Question& q : questions) strategies.push_back(q.strategy);
  const std::vector<search::Evaluation> known = evaluator.evaluate(strategies);
  for (std::size_t q = 0; q < known.size(); ++q) {
    EXPECT_EQ(known[q].declined, alone[q].declined);
    EXPECT_EQ(known[q].step, alone[q].step);
    EXPECT_EQ(known[q].peak_bytes, alone[q].peak_bytes);
  }
}

}  // namespace
}  // namespace foretrace::test
