// The search for a strategy, on a real step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foretrace/memory/memory.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/search/optimize.hpp"
#include "foretrace/trace/load.hpp"

namespace foretrace::test {
namespace {

using search::Strategy;
using ::testing::HasSubstr;

class Optimize : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Result<trace::Trace> loaded = trace::load(FORETRACE_SOURCE_DIR "/data/h200-more/bert_l8.base.json.gz");
    ASSERT_TRUE(loaded.has_value());
    recorded = new trace::Trace(std::move(*loaded));
    Result<analysis::Baseline> made = analysis::make_baseline(*recorded, std::nullopt, std::nullopt);
    ASSERT_TRUE(made.has_value());
    baseline = new analysis::Baseline(std::move(*made));
  }
  static void TearDownTestSuite() {
    delete baseline;
    delete recorded;
  }
  static const whatif::Model& model() { return baseline->model; }
  static std::int64_t peak() { return model().memory->peak_bytes; }

  static trace::Trace* recorded;
  static analysis::Baseline* baseline;
};
trace::Trace* Optimize::recorded = nullptr;
analysis::Baseline* Optimize::baseline = nullptr;

TEST_F(Optimize, FindsSomethingFasterAndSaysWhatEachPartGives) {
  search::OptimizeOptions options;
  options.evaluations = 60;
  const auto found = optimize(*baseline, options);
  ASSERT_TRUE(found.has_value()) << found.error().to_string();
  EXPECT_LT(found->prediction.step, found->baseline);
  EXPECT_LE(found->evaluations, 60U);
  ASSERT_EQ(found->parts.size(), found->best.whatifs.size());
  for (const auto& part : found->parts) EXPECT_FALSE(part.why.empty()) << part.text;
}

TEST_F(Optimize, TheSameAnswerOnAnyNumberOfThreadsAndBySomebodyElse) {
  search::OptimizeOptions options;
  options.evaluations = 40;
  options.threads = 1;
  const auto one = optimize(*baseline, options);
  options.threads = 5;
  const auto five = optimize(*baseline, options);
  options.evaluate = [&](const std::vector<Strategy>& strategies) {
    std::vector<search::Evaluation> out;
    for (const Strategy& s : strategies) {
      // As another process would get it: as text.
      const auto read = search::parse_strategy(report::strategy_json(s), "wire");
      EXPECT_EQ(*read, s);
      out.push_back(search::evaluate_all(*baseline, {*read}, 1).front());
    }
    return out;
  };
  const auto elsewhere = optimize(*baseline, options);
  ASSERT_TRUE(one && five && elsewhere);
  EXPECT_EQ(one->best, five->best);
  EXPECT_EQ(one->best, elsewhere->best);
  EXPECT_EQ(one->prediction.step, elsewhere->prediction.step);
}

TEST_F(Optimize, NeverOverTheMemoryLimit) {
  for (const double share : {0.9, 0.7, 0.6, 0.5}) {
    search::OptimizeOptions options;
    options.evaluations = 80;
    options.memory_limit = static_cast<std::int64_t>(share * static_cast<double>(peak()));
    options.only = {"checkpoint", "accumulate"};
    const auto found = optimize(*baseline, options);
    ASSERT_TRUE(found.has_value()) << found.error().to_string();
    ASSERT_TRUE(found->prediction.peak_bytes.has_value());
    EXPECT_LE(*found->prediction.peak_bytes, *options.memory_limit);
    // No other number of blocks and parts that fits is faster.
    std::vector<Strategy> all;
    for (const char* const parts : {"", "accumulate:n=2", "accumulate:n=4"}) {
      std::string blocks;
      for (int k = 0; k <= 8; ++k) {
        Strategy s;
        if (*parts != 0) s.whatifs.emplace_back(parts);
        if (k > 0) {
          blocks += (k > 1 ? "|bert.encoder.layer." : "bert.encoder.layer.") + std::to_string(k - 1);
          s.whatifs.push_back("checkpoint:layers=" + blocks);
        }
        all.push_back(std::move(s));
      }
    }
    Ns best = INT64_MAX;
    for (const search::Evaluation& e : search::evaluate_all(*baseline, all, 0)) {
      if (e.ok() && e.reserved_bytes && *e.reserved_bytes <= *options.memory_limit) best = std::min(best, e.step);
    }
    EXPECT_LE(static_cast<double>(found->prediction.step), 1.005 * static_cast<double>(best)) << share;
  }
}

// A peak below the limit is not enough: the allocator holds more than it ever uses at a time.
TEST_F(Optimize, HoldsItsLimitAgainstWhatIsReserved) {
  const std::int64_t reserved = memory::reserved(*model().memory);
  ASSERT_GT(reserved, peak());
  search::OptimizeOptions options;
  options.evaluations = 60;
  options.only = {"checkpoint", "accumulate"};
  options.memory_limit = (peak() + reserved) / 2;
  const auto found = optimize(*baseline, options);
  ASSERT_TRUE(found.has_value()) << found.error().to_string();
  EXPECT_FALSE(found->best.whatifs.empty());
  EXPECT_LE(*found->prediction.reserved_bytes, *options.memory_limit);
  options.memory_limit = reserved;
  const auto as_it_is = optimize(*baseline, options);
  ASSERT_TRUE(as_it_is.has_value());
  EXPECT_TRUE(as_it_is->best.whatifs.empty());
}

TEST_F(Optimize, DeclinesWhatNothingCanMeet) {
  search::OptimizeOptions options;
  options.evaluations = 60;
  options.memory_limit = 1'000'000;
  const auto found = optimize(*baseline, options);
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code, ErrorCode::kDeclined);
  EXPECT_THAT(found.error().message, HasSubstr("no strategy found"));
}

TEST_F(Optimize, AStrategyOfOnesOwnIsExplainedAsTheSearchWould) {
  search::OptimizeOptions options;
  options.only = {"fused-optimizer", "tf32"};
  options.evaluations = 40;
  const auto found = optimize(*baseline, options);
  ASSERT_TRUE(found.has_value());
  const search::Optimized again = search::explain_strategy(*baseline, found->best);
  EXPECT_EQ(again.baseline, found->baseline);
  EXPECT_EQ(again.prediction.step, found->prediction.step);
  ASSERT_EQ(again.parts.size(), found->parts.size());
  for (std::size_t i = 0; i < again.parts.size(); ++i) {
    EXPECT_EQ(again.parts[i].gain, found->parts[i].gain);
    EXPECT_EQ(again.parts[i].why, found->parts[i].why);
  }
}

// Names come from a trace: they end neither a literal nor a comment.
TEST(StrategyCode, NamesCannotBecomeCode) {
  report::OptimizeReport r;
  r.found.best.whatifs = {"checkpoint:layers=a\"b\nimport os\\"};
  r.found.parts = {{.text = r.found.best.whatifs.front(), .without = 1}};
  const std::string script = report::pytorch_script(r);
  EXPECT_THAT(script, HasSubstr(R"("a\"b\x0aimport os\\",)"));
  EXPECT_THAT(script, ::testing::Not(HasSubstr("\nimport os\\")));
}

TEST(StrategyCode, EveryPartHasAPieceOrIsLeftToPeople) {
  report::OptimizeReport r;
  for (const char* const text : {"dataloader:workers=6", "flash-attention", "substitute", "no-sync"}) {
    r.found.best.whatifs.emplace_back(text);
    r.found.parts.push_back({.text = text, .without = 2'000'000, .gain = 1'500'000});
  }
  const std::string script = report::pytorch_script(r);
  EXPECT_THAT(script,
              HasSubstr("options.update(num_workers=6, pin_memory=torch.cuda.is_available())  # gains +1.50 ms"));
  EXPECT_THAT(script, HasSubstr("    fused_attention(model)  # gains +1.50 ms\n"));
  EXPECT_THAT(script, HasSubstr("# By hand:\n# substitute (gains +1.50 ms): self.qkv = nn.Linear"));
  EXPECT_THAT(script, HasSubstr("# no-sync: nothing here waits for the GPU"));
}

TEST_F(Optimize, TheScriptNamesTheLayers) {
  search::OptimizeOptions options;
  options.memory_limit = peak() * 6 / 10;
  options.only = {"checkpoint", "accumulate", "fused-optimizer"};
  options.evaluations = 80;
  auto found = optimize(*baseline, options);
  ASSERT_TRUE(found.has_value());
  const std::string script = report::pytorch_script({baseline->figures, std::move(*found)});
  EXPECT_THAT(script, HasSubstr("def train_step("));
  EXPECT_THAT(script, ::testing::AnyOf(HasSubstr("        checkpointed(module)"), HasSubstr("parts_of(inputs")));
}

}  // namespace
}  // namespace foretrace::test
