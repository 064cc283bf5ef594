// One question, one answer: whoever asks (whatif, --stack, --strategy, the search, advise, scale, gpus), the same numbers to the
// nanosecond. The doors of Python and the command line, and what the page shows: tests/python/test_one_driver.py.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "foretrace/analysis/gpus.hpp"
#include "foretrace/overview/overview.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/search/optimize.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "plan/stack.hpp"
#include "report/scale.hpp"
#include "search/communication.hpp"
#include "search/evaluate.hpp"
#include "tests/sweep/uses.hpp"
#include "tests/unit/measured_step.hpp"

namespace foretrace::test {
namespace {

using whatif::Prediction;
using Texts = std::vector<std::string>;

class OneDriver : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Result<trace::Trace> loaded = trace::load(FORETRACE_SOURCE_DIR "/examples/resnet50-h200.json.gz");
    ASSERT_TRUE(loaded.has_value());
    shared_trace = new trace::Trace(std::move(*loaded));
    for (const std::optional<double> measured : {std::optional<double>(), std::optional<double>(71.6)}) {
      Result<analysis::Baseline> made = analysis::make_baseline(*shared_trace, std::nullopt, measured);
      ASSERT_TRUE(made.has_value());
      shared_bases.push_back(std::move(*made));
    }
  }
  static void TearDownTestSuite() {
    shared_bases.clear();
    delete shared_trace;
  }

  static const analysis::Baseline& measured() { return shared_bases[1]; }

  static Prediction asked(const analysis::Baseline& b, const Texts& texts,
                          whatif::Detail detail = whatif::Detail::kFull) {
    std::vector<whatif::Use> uses;
    for (const std::string& text : texts) uses.push_back(whatif::parse_use(text).value());
    return plan::has_stages(uses) ? plan::predict(b, uses) : analysis::predict(b, uses, detail);
  }
  static void expect_same(const Prediction& a, const Prediction& b, const std::string& what) {
    EXPECT_EQ(a.declined, b.declined) << what;
    EXPECT_EQ(a.step, b.step) << what;
    EXPECT_EQ(a.low, b.low) << what;
    EXPECT_EQ(a.high, b.high) << what;
    EXPECT_EQ(a.gpu_time, b.gpu_time) << what;
    EXPECT_EQ(a.peak_bytes, b.peak_bytes) << what;
    EXPECT_EQ(a.reserved_bytes, b.reserved_bytes) << what;
    EXPECT_EQ(a.exposed_communication, b.exposed_communication) << what;
    EXPECT_EQ(a.validated, b.validated) << what;
    EXPECT_EQ(a.not_modelled, b.not_modelled) << what;
  }

  // Each what-if of the catalogue once.
  static Texts every_whatif() {
    Texts out;
    std::string last;
    for (const std::string& use : sweep::every_use()) {
      const std::string name = use.substr(0, use.find(':'));
      if (name == last) continue;
      last = name;
      out.push_back(use);
    }
    return out;
  }
  // What each is asked before: nothing, a move to a GPU without TF32, N workers.
  static std::vector<Texts> contexts() { return {{}, {"gpu:to=V100-SXM2-16GB"}, {"ddp:workers=8,fabric=100GbE"}}; }
  static Texts before(Texts changes, const Texts& context) {
    changes.insert(changes.end(), context.begin(), context.end());
    return changes;
  }
  static std::vector<Texts> questions() {
    std::vector<Texts> out;
    for (const std::string& use : every_whatif()) {
      for (const Texts& context : contexts()) out.push_back(before({use}, context));
    }
    return out;
  }

  static bool answers(const analysis::Baseline& b, const Texts& texts) {
    return asked(b, texts, whatif::Detail::kStepOnly).declined.empty();
  }
  // All changes that can be stacked before the context, in as few stacks as their order allows: a page takes as long as dozens of
  // predictions. Each beginning of a stack answers as well, as the page shows the step after each change.
  static std::vector<Texts> stacks_before(const analysis::Baseline& b, const Texts& context) {
    std::vector<Texts> stacks;
    for (const std::string& use : every_whatif()) {
      if (!answers(b, {use}) || !answers(b, before({use}, context))) continue;
      const auto takes = [&](const Texts& stack) {
        const Texts longer = before(stack, {use});
        return answers(b, longer) && answers(b, before(longer, context));
      };
      const auto found = std::find_if(stacks.begin(), stacks.end(), takes);
      if (found == stacks.end()) {
        stacks.push_back({use});
      } else {
        found->push_back(use);
      }
    }
    return stacks;
  }

  static trace::Trace* shared_trace;
  static std::vector<analysis::Baseline> shared_bases;
};
trace::Trace* OneDriver::shared_trace = nullptr;
std::vector<analysis::Baseline> OneDriver::shared_bases = {};

// The search keeps the models of common beginnings; --strategy, advise and optimize all answer from there.
TEST_F(OneDriver, AListAndASearchAgreeOnTheWholeCatalogue) {
  std::vector<search::Evaluator::Question> all;
  for (const Texts& texts : questions()) all.push_back({{texts, {}}, whatif::Detail::kFull});
  ASSERT_GT(all.size(), 90U);
  search::Evaluator evaluator(measured(), 2, std::nullopt);
  const std::vector<Prediction> found = evaluator.predict(all);
  std::size_t answered = 0;
  for (std::size_t q = 0; q < all.size(); ++q) {
    const Texts& texts = all[q].strategy.whatifs;
    expect_same(found[q], asked(measured(), texts), fmt::format("{}", fmt::join(texts, " + ")));
    answered += found[q].declined.empty() ? 1 : 0;
  }
  EXPECT_GT(answered, all.size() / 2);
}

// The page shows changes alone, stacked, and the step after each change of the stack.
TEST_F(OneDriver, ThePageAgreesOnTheWholeCatalogue) {
  const analysis::Baseline& base = measured_step("h200-clean/mlp");
  const Texts all = every_whatif();
  const Result<overview::Overview> alone = overview::make_overview(*base.model.trace, {.whatifs = all, .threads = 2});
  ASSERT_TRUE(alone) << alone.error().to_string();
  ASSERT_EQ(alone->alone.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) expect_same(alone->alone[i], asked(base, {all[i]}), all[i]);
}

TEST_F(OneDriver, ThePageAgreesOnStacksBeforeEachContext) {
  const analysis::Baseline& base = measured_step("h200-clean/mlp");
  for (const Texts& context : contexts()) {
    std::size_t stacked = 0;
    for (const Texts& changes : stacks_before(base, context)) {
      const Texts stack = before(changes, context);
      const std::string what = fmt::format("{}", fmt::join(stack, " + "));
      const Result<overview::Overview> page =
          overview::make_overview(*base.model.trace, {.whatifs = stack, .threads = 2});
      ASSERT_TRUE(page && page->best) << what;
      expect_same(*page->best, asked(base, stack), what);
      ASSERT_EQ(page->waterfall.size(), stack.size()) << what;
      for (std::size_t n = 1; n <= stack.size(); ++n) {
        const Texts first(stack.begin(), stack.begin() + static_cast<std::ptrdiff_t>(n));
        EXPECT_EQ(page->waterfall[n - 1].second, asked(base, first, whatif::Detail::kStepOnly).step)
            << n << " of " << what;
      }
      stacked += changes.size();
    }
    EXPECT_GT(stacked, every_whatif().size() / 2);
  }
}

TEST_F(OneDriver, AStrategyIsTheSameListOfChanges) {
  for (const analysis::Baseline& base : shared_bases) {
    for (const Texts& stack : std::vector<Texts>{{"amp:dtype=bf16", "fused-optimizer"},
                                                 {"batch:x=2", "checkpoint"},
                                                 {"tf32", "gpu:to=V100-SXM2-16GB"},
                                                 {"tf32", "fused-optimizer", "gpu:to=A100-SXM4-80GB"}}) {
      search::Strategy strategy;
      strategy.whatifs = stack;
      expect_same(asked(base, stack), search::explain_strategy(base, strategy).prediction, stack[0]);
      Texts on_workers = stack;
      on_workers.emplace_back("ddp:workers=8,fabric=100GbE");
      strategy.communication = search::Communication{};
      strategy.communication->workers = 8;
      strategy.communication->fabric = "100GbE";
      strategy.communication->first_bucket_mb = 1;
      expect_same(asked(base, on_workers), search::predict_strategy(base, strategy), stack[0] + " on 8 workers");
    }
  }
}

TEST_F(OneDriver, AnAdvisedRowIsTheChangeAlone) {
  const search::Advised advised = search::advise(measured(), {});
  ASSERT_GT(advised.alone.size(), 10U);
  for (const search::Advice& row : advised.alone) {
    ASSERT_EQ(row.uses.size(), 1U);
    expect_same(row.prediction, asked(measured(), {row.uses[0].text}), row.uses[0].text);
  }
  ASSERT_TRUE(advised.together.has_value());
  Texts all;
  for (const whatif::Use& use : advised.together->uses) all.push_back(use.text);
  expect_same(advised.together->prediction, asked(measured(), all), "the advised combination");
}

// Changes of different things: the order in which they are written does not matter.
TEST_F(OneDriver, IndependentChangesInAnyOrder) {
  const auto predicted = [](const Texts& texts) { return asked(measured(), texts, whatif::Detail::kStepOnly); };
  for (Texts changes : std::vector<Texts>{
           {"duration:select='*conv*',x=0.5", "duration:select='*batch_norm*',x=0.25", "duration:select='*relu*',x=2"},
           {"fused-optimizer", "channels-last", "no-sync"},
           {"tf32", "fused-optimizer"},
           {"amp:dtype=bf16", "fused-optimizer"},
           {"checkpoint", "fused-optimizer"}}) {
    for (const Texts& context : contexts()) {
      std::sort(changes.begin(), changes.end());
      const Prediction first = predicted(before(changes, context));
      EXPECT_EQ(first.declined, "");
      while (std::next_permutation(changes.begin(), changes.end())) {
        const Texts texts = before(changes, context);
        const Prediction other = predicted(texts);
        const std::string what = fmt::format("{}", fmt::join(texts, " + "));
        EXPECT_EQ(first.step, other.step) << what;
        EXPECT_EQ(first.gpu_time, other.gpu_time) << what;
        EXPECT_EQ(first.peak_bytes, other.peak_bytes) << what;
      }
    }
  }
}

TEST_F(OneDriver, EverySchemeAtEveryDoor) {
  for (const analysis::Baseline& base : shared_bases) {
    for (const std::string& scheme : whatif::scheme_names()) {
      const whatif::Parallelism how = whatif::make_parallelism({.parallel = scheme}).value();
      for (const char* const fabric : {"DGX-H100", "10GbE", "NDR"}) {
        search::Communication c;
        c.fabric = fabric;
        c.scheme = scheme;
        c.first_bucket_mb = 1;
        const whatif::Network network = search::network_of(c, base.model.device).value();
        const analysis::ScaleReport scaled =
            analysis::scale_report(base, how, network.collectives, network.gpus_per_node, {2, 8, 64});
        ASSERT_EQ(scaled.predictions.size() + scaled.declined.size(), 3U) << scheme << fabric;
        for (const auto& [n, reason] : scaled.declined) {
          EXPECT_EQ(asked(base, {fmt::format("{}:workers={},fabric={}", scheme, n, fabric)}).declined, reason);
        }
        for (const Prediction& by_scale : scaled.predictions) {
          const std::string what = fmt::format("{}:workers={},fabric={}", scheme, by_scale.workers, fabric);
          expect_same(by_scale, asked(base, {what}), what);
          search::Strategy strategy;
          c.workers = by_scale.workers;
          strategy.communication = c;
          expect_same(by_scale, search::predict_strategy(base, strategy), what);
        }
      }
    }
  }
}

TEST_F(OneDriver, GpusAtEveryDoor) {
  analysis::GpusOptions options;
  options.targets = {"A100-SXM4-80GB", "L40S", "RTX-4090"};
  options.whatifs = {"fused-optimizer"};
  const Result<analysis::GpusReport> gpus = analysis::compare_gpus(shared_bases[0], options);
  ASSERT_TRUE(gpus.has_value());
  for (const analysis::GpuPrediction& g : gpus->predictions) {
    expect_same(g.prediction, asked(shared_bases[0], {"fused-optimizer", "gpu:to=" + g.device.name}), g.device.name);
  }
}

}  // namespace
}  // namespace foretrace::test
