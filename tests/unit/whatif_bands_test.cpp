// Bands: residuals kept as data, and how they become a 10th and a 90th percentile.

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/make_model.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"
#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::whatif {
namespace {

Residuals table(std::string_view text) {
  Result<Residuals> r = Residuals::parse(text, "table.csv");
  EXPECT_TRUE(r.has_value());
  return r ? *r : Residuals();
}

TEST(Residuals, OneModelHasOneVote) {
  // Model a is measured in three rows, all off by 0.1, b once, off by 0.3: half of the votes are for 0.1, so that b's decides.
  const Residuals r = table("# comment\ngemm,a,0.1\ngemm,a,-0.1\ngemm,a,0.1\r\ngemm,b,0.3\n\n");
  EXPECT_EQ(r.models("gemm"), 2u);
  EXPECT_NEAR(r.sigma("gemm"), 0.3 / 1.2816 * 1.471, 1e-9);
}

TEST(Residuals, FewModelsAreWider) {
  const Residuals one = table("gemm,a,0.1\n");
  std::string many;
  for (const char model : std::string("abcdefghijklmnop")) many += std::string("gemm,") + model + ",0.1\n";
  EXPECT_GT(one.sigma("gemm"), 2 * table(many).sigma("gemm"));
  EXPECT_NEAR(table(many).sigma("gemm"), 0.1 / 1.2816, 0.005);
  // One model of sixteen that went quite wrong does not widen what the others tell.
  EXPECT_NEAR(table(many + "gemm,q,2\n").sigma("gemm"), 0.1 / 1.2816, 0.005);
}

TEST(Residuals, AKernelNobodyMeasuredErrsLikeTheOthers) {
  const Residuals r = table("gemm,a,0.1\nhost,a,0.5\n");
  EXPECT_EQ(r.sigma("rnn"), r.sigma("gemm"));
  // Where nobody measured anything it is as wide as the families of the built-in table are in the mean: not less than the narrowest of them.
  EXPECT_GT(table("").sigma("rnn"), Residuals::built_in("H200-SXM").sigma("gemm"));
}

TEST(Residuals, ABrokenLineIsNamed) {
  for (const char* text : {"gemm,a\n", "gemm,a,x\n", ",a,1\n", "gemm,a,nan\n", "gemm,a,1 2\n"}) {
    const Result<Residuals> r = Residuals::parse(std::string("# first\n") + text, "table.csv");
    ASSERT_FALSE(r.has_value()) << text;
    EXPECT_NE(r.error().message.find("line 2"), std::string::npos);
    EXPECT_EQ(r.error().file, "table.csv");
  }
}

TEST(Residuals, TheBuiltInTableHoldsTheFamiliesOfTheBand) {
  for (const char* family : {"host", "scaled", "gemm", "convolution", "bandwidth"}) {
    EXPECT_GE(Residuals::built_in("H200-SXM").models(family), 3u) << family;
  }
}

class BandTest : public testing::Test {
 protected:
  static Prediction predicted(const char* use, std::shared_ptr<const Residuals> residuals = nullptr) {
    static const trace::Trace kTrace =
        trace::load(std::string(FORETRACE_SOURCE_DIR) + "/examples/resnet50-h200.json.gz").value();
    analysis::Baseline baseline = analysis::make_baseline(kTrace, std::nullopt, 71.6).value();
    baseline.model.residuals = std::move(residuals);
    return predict(baseline.model, {parse_use(use).value()}, baseline.figures.measured);
  }
};

TEST_F(BandTest, DeviationsAddInSquares) {
  const Prediction p = predicted("tf32");
  ASSERT_TRUE(p.declined.empty()) << p.declined;
  double up = 0;
  double down = 0;
  const auto step = static_cast<double>(p.step);
  for (const BandPart& part : p.band) {
    up += std::pow(std::log1p(static_cast<double>(part.up) / step), 2);
    down += std::pow(std::log1p(-static_cast<double>(part.down) / step), 2);
  }
  EXPECT_NEAR(std::log(static_cast<double>(p.high) / step), 1.2816 * std::sqrt(up), 1e-3);
  EXPECT_NEAR(std::log(step / static_cast<double>(p.low)), 1.2816 * std::sqrt(down), 1e-3);
  EXPECT_GT(p.high, p.step);
  EXPECT_LT(p.low, p.step);
}

TEST_F(BandTest, WorseResidualsGiveWiderBands) {
  const auto at = [](double off) {
    std::string text;
    for (const char* family : {"host", "scaled", "gemm", "convolution", "attention", "rnn", "bandwidth"}) {
      text += std::string(family) + ",a," + std::to_string(off) + "\n";
    }
    return std::make_shared<const Residuals>(table(text));
  };
  const Prediction narrow = predicted("tf32", at(0.01));
  const Prediction wide = predicted("tf32", at(0.1));
  EXPECT_EQ(narrow.step, wide.step);
  EXPECT_LT(narrow.high, wide.high);
  EXPECT_GE(narrow.low, wide.low);  // both may stand on what the CPU leaves
}

TEST_F(BandTest, GpuTimeIsTheSumOfItsFamilies) {
  const Prediction p = predicted("tf32");
  Ns sum = 0;
  for (const FamilyTime& f : p.gpu_families) sum += f.total();
  EXPECT_EQ(sum, p.gpu_time);
}

/// Half the width of a band upwards and downwards, of the log.
struct Width {
  double up = 0, down = 0;
};

Width width(Ns low, Ns step, Ns high) {
  return {std::log(static_cast<double>(high) / static_cast<double>(step)),
          std::log(static_cast<double>(step) / static_cast<double>(std::max<Ns>(1, low)))};
}

/// How far a step moves between the ends of what is not known of the CPU of the step as it was, and of the GPU between runs.
Width moved(const Graph& g, const host::Unprofiled& base) {
  const auto end = [&](double sign) {
    Graph other = g;
    for (std::size_t t = 0; t < g.size(); ++t) {
      if (graph::is_gpu(g.kind[t])) continue;
      const auto p = static_cast<std::size_t>(host::cpu_phase(g, t));
      const double by = sign * 1.2816 * base.sigma[p] + (sign > 0 ? base.slower[p] : 0);
      other.cost[t] = static_cast<Ns>(static_cast<double>(g.cost[t]) * std::exp(by));
    }
    const double step = static_cast<double>(simulate::steady_state(g).timeline.step);
    return sign * std::log(static_cast<double>(simulate::steady_state(other).timeline.step) / step);
  };
  const double gpu = 1.2816 * base.sigma[host::kCpuPhases];
  return {end(1) + std::log1p(gpu), end(-1) - std::log1p(-gpu)};
}

struct Case {
  const char* trace;
  std::optional<double> measured;
};

class EveryStep : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    trace_ = trace::load(std::string(FORETRACE_SOURCE_DIR) + "/" + GetParam().trace).value();
    baseline_ = analysis::make_baseline(trace_, std::nullopt, GetParam().measured).value();
  }
  trace::Trace trace_;
  std::optional<analysis::Baseline> baseline_;
};

// Unless the changed step depends less on what is not known of that one.
TEST_P(EveryStep, APredictionIsNeverSurerThanTheStepItStartsFrom) {
  const host::Unprofiled& own = baseline_->model.base;
  const Width before = width(own.low, own.step, own.high);
  std::size_t answered = 0;
  for (const char* use : {"cpu:x=1", "no-sync", "fused-optimizer", "foreach-optimizer", "amp", "tf32", "batch:x=2",
                          "batch:x=0.5", "accumulate:n=2", "checkpoint", "compile", "cuda-graph", "offload",
                          "channels-last", "flash-attention", "duration:select=*gemm*,x=0.5"}) {
    const Prediction p = predict(baseline_->model, {parse_use(use).value()}, baseline_->figures.measured);
    if (!p.declined.empty()) continue;
    ++answered;
    const Width after = width(p.low, p.step, p.high);
    const Width depends = moved(p.graph, own);
    EXPECT_GE(after.up, std::min(before.up, depends.up) - 2e-3) << use;
    EXPECT_GE(after.down, std::min(before.down, depends.down) - 2e-3) << use;
  }
  EXPECT_GE(answered, 6U);
}

INSTANTIATE_TEST_SUITE_P(Steps, EveryStep,
                         testing::Values(Case{"examples/resnet50-h200.json.gz", 71.6},
                                         Case{"examples/resnet50-h200.json.gz", std::nullopt},
                                         Case{"data/h200-clean/gpt2@1-today.base.json.gz", std::nullopt},
                                         Case{"data/h200-clean/mlp.base.json.gz", 4.8},
                                         Case{"data/h200-clean/lstm_lm@8.base.json.gz", std::nullopt},
                                         Case{"data/h200-clean/bert_base-compiled.base.json.gz", std::nullopt}));

TEST(Bands, AStepWhoseCpuNobodyMeasuredIsLessSureThanOneThatWasTimed) {
  const trace::Trace trace =
      trace::load(std::string(FORETRACE_SOURCE_DIR) + "/data/h200-clean/gpt2@1-today.base.json.gz").value();
  const trace::Steps steps = trace::find_steps(trace);
  const Graph graph = graph::GraphBuilder(trace, steps).build(0).value();
  // The recorder's figures in the trace are left aside.
  const auto width_of = [&](std::optional<Ns> measured, const char* use) {
    const Model m = analysis::make_model(trace, steps.steps[0], graph, graph.traced, measured).value();
    const Prediction p = predict(m, {parse_use(use).value()}, measured);
    return width(p.low, p.step, p.high);
  };
  const Width plain = width_of(std::nullopt, "batch:x=0.5");
  const Width timed = width_of(Ns{28'300'000}, "batch:x=0.5");
  EXPECT_GT(plain.up, timed.up);
  EXPECT_GT(plain.down, timed.down);
  // Where the CPU no longer matters, nor does what is not known of it.
  EXPECT_LT(width_of(std::nullopt, "cuda-graph").up, plain.up / 2);
}

TEST(Bands, ChangesOnTopOfOthersAreLessSure) {
  const trace::Trace trace = trace::load(std::string(FORETRACE_SOURCE_DIR) + "/examples/resnet50-h200.json.gz").value();
  const analysis::Baseline b = analysis::make_baseline(trace, std::nullopt, 71.6).value();
  const auto parts = [&](const std::vector<const char*>& texts) {
    std::vector<Use> uses;
    for (const char* text : texts) uses.push_back(parse_use(text).value());
    const Prediction p = predict(b.model, uses, b.figures.measured);
    double combined = 0;
    for (const BandPart& part : p.band) combined += part.family == kCombinedFamily ? part.sigma : 0;
    return combined;
  };
  EXPECT_EQ(parts({"tf32"}), 0);
  EXPECT_GT(parts({"tf32", "fused-optimizer"}), 0);
  EXPECT_GT(parts({"tf32", "fused-optimizer", "no-sync"}), parts({"tf32", "fused-optimizer"}));
}

TEST(Bands, KernelsModelledOnAGpuThatNobodyMeasuredAreLessSure) {
  const trace::Trace trace = trace::load(std::string(FORETRACE_SOURCE_DIR) + "/examples/resnet50-h200.json.gz").value();
  analysis::Baseline b = analysis::make_baseline(trace, std::nullopt, 71.6).value();
  const auto convolutions = [&] {
    const Prediction p = predict(b.model, {parse_use("amp").value()}, b.figures.measured);
    EXPECT_EQ(p.declined, "");
    double sigma = 0;
    for (const BandPart& part : p.band) sigma += part.family == "convolution" ? part.sigma : 0;
    return sigma;
  };
  const double measured = convolutions();
  b.model.device = hardware::find_device("A100-SXM4-80GB").value();
  EXPECT_GT(convolutions(), 1.5 * measured);
}

}  // namespace
}  // namespace foretrace::whatif
