// One question, one answer: whoever asks (whatif, scale, optimize's strategies, gpus), the same numbers to the nanosecond.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "foretrace/search/optimize.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "report/gpus.hpp"
#include "report/scale.hpp"
#include "search/communication.hpp"

namespace foretrace::test {
namespace {

using whatif::Prediction;

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

  static Prediction asked(const analysis::Baseline& b, const std::vector<std::string>& texts) {
    std::vector<whatif::Use> uses;
    for (const std::string& text : texts) uses.push_back(whatif::parse_use(text).value());
    return analysis::predict(b, uses);
  }
  static void expect_same(const Prediction& a, const Prediction& b, const std::string& what) {
    EXPECT_EQ(a.declined, b.declined) << what;
    EXPECT_EQ(a.step, b.step) << what;
    EXPECT_EQ(a.low, b.low) << what;
    EXPECT_EQ(a.high, b.high) << what;
    EXPECT_EQ(a.gpu_time, b.gpu_time) << what;
    EXPECT_EQ(a.peak_bytes, b.peak_bytes) << what;
    EXPECT_EQ(a.exposed_communication, b.exposed_communication) << what;
    EXPECT_EQ(a.validated, b.validated) << what;
  }

  static trace::Trace* shared_trace;
  static std::vector<analysis::Baseline> shared_bases;
};
trace::Trace* OneDriver::shared_trace = nullptr;
std::vector<analysis::Baseline> OneDriver::shared_bases = {};

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

TEST_F(OneDriver, StacksAtEveryDoor) {
  for (const analysis::Baseline& base : shared_bases) {
    for (const std::vector<std::string>& stack : std::vector<std::vector<std::string>>{
             {"amp:dtype=bf16", "fused-optimizer"}, {"channels-last", "cuda-graph"}, {"batch:x=2", "checkpoint"}}) {
      search::Strategy strategy;
      strategy.whatifs = stack;
      expect_same(asked(base, stack), search::predict_strategy(base, strategy), stack[0]);
      std::vector<std::string> on_workers = stack;
      on_workers.emplace_back("ddp:workers=8,fabric=100GbE");
      strategy.communication = search::Communication{};
      strategy.communication->workers = 8;
      strategy.communication->fabric = "100GbE";
      strategy.communication->first_bucket_mb = 1;
      expect_same(asked(base, on_workers), search::predict_strategy(base, strategy), stack[0] + " on 8 workers");
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
