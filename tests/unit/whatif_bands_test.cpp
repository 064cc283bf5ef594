// Bands: residuals kept as data, and how they become a 10th and a 90th percentile.

#include <gtest/gtest.h>

#include <cmath>

#include "foretrace/report/whatif.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/whatif/residuals.hpp"
#include "foretrace/whatif/whatif.hpp"

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
  EXPECT_GT(table("").sigma("rnn"), 0.1);
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
    EXPECT_GE(Residuals::built_in().models(family), 3u) << family;
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

}  // namespace
}  // namespace foretrace::whatif
