// Buckets as PyTorch builds them, and N workers from one step.

#include <gtest/gtest.h>

#include <filesystem>

#include "foretrace/report/whatif.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/whatif/parallel.hpp"

namespace foretrace::test {
namespace {

using hardware::FabricCollectives;
using whatif::Gradients;
using whatif::Scheme;
using whatif::Strategy;

Gradients gradients_of(const std::vector<std::int64_t>& elements) {
  Gradients g;
  for (const std::int64_t n : elements) {
    g.list.push_back({.elements = n});
    g.elements += n;
  }
  return g;
}

std::vector<std::size_t> sizes(const whatif::BucketPlan& plan) {
  std::vector<std::size_t> s;
  for (const whatif::Bucket& b : plan) s.push_back(b.gradients.size());
  return s;
}

TEST(Buckets, CloseOnceTheyHoldTheirLimit) {
  const Gradients g = gradients_of({10, 10, 10, 10, 10, 1});  // 40 bytes each
  EXPECT_EQ(sizes(pytorch_buckets(g, 80, 80)), (std::vector<std::size_t>{2, 2, 2}));
  EXPECT_EQ(sizes(pytorch_buckets(g, 81, 1)), (std::vector<std::size_t>{1, 3, 2}));
  EXPECT_EQ(sizes(pytorch_buckets(g, 1 << 30, 1 << 30)), (std::vector<std::size_t>{6}));
}

std::filesystem::path ranks_folder() { return std::filesystem::path(FORETRACE_SOURCE_DIR) / "data" / "h200-ranks"; }

class Scale : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<trace::Trace> loaded = trace::load((ranks_folder() / "resnet50.mps.solo.w2.r0.json.gz").string());
    ASSERT_TRUE(loaded) << loaded.error().to_string();
    trace_ = std::make_unique<trace::Trace>(std::move(*loaded));
    Result<report::Baseline> baseline = report::make_baseline(*trace_, std::nullopt, 67.73);
    ASSERT_TRUE(baseline) << baseline.error().to_string();
    baseline_ = std::make_unique<report::Baseline>(std::move(*baseline));
  }

  whatif::ScalePrediction predict(const Strategy& s, int workers, const char* fabric = "25GbE") {
    const FabricCollectives model(*hardware::find_fabric(fabric));
    Result<whatif::ScalePrediction> p =
        predict_scale(baseline_->model, baseline_->report.measured, s, {&model, workers, 1});
    EXPECT_TRUE(p) << p.error().to_string();
    return p ? std::move(*p) : whatif::ScalePrediction{};
  }

  std::unique_ptr<trace::Trace> trace_;
  std::unique_ptr<report::Baseline> baseline_;
};

TEST_F(Scale, FindsEveryParameterOfTheModel) {
  const Gradients g = *find_gradients(baseline_->model);
  EXPECT_EQ(g.list.size(), 161U);
  EXPECT_EQ(g.elements, 25'557'032);
}

TEST_F(Scale, BucketsEqualThoseOfTheDdpTrace) {
  // nelems of the four all-reduces in the recorded step with bucket_cap_mb=25.
  const Gradients g = *find_gradients(baseline_->model);
  const whatif::BucketPlan plan = pytorch_buckets(g, 25 << 20, 25 << 20);
  std::vector<std::int64_t> elements;
  for (const whatif::Bucket& b : plan) elements.push_back(b.bytes / 4);
  EXPECT_EQ(elements, (std::vector<std::int64_t>{7564264, 6563840, 7091712, 4337216}));
}

TEST_F(Scale, OneWorkerIsTheMeasuredStep) {
  const whatif::ScalePrediction p = predict({}, 1);
  EXPECT_NEAR(static_cast<double>(p.step), 67.73e6, 1e3);
  EXPECT_EQ(p.exposed_communication, 0);
  EXPECT_NEAR(p.efficiency, 1, 1e-4);
}

TEST_F(Scale, EverySchemeAnswersAndStaysAboveOneWorkersStep) {
  for (const std::string& name : whatif::scheme_names()) {
    Strategy s;
    s.scheme = *whatif::parse_scheme(name);
    const whatif::ScalePrediction p = predict(s, 16, "DGX-A100");
    EXPECT_GT(p.step, 65'000'000) << name;
    EXPECT_LE(p.low, p.step) << name;
    EXPECT_GE(p.high, p.step) << name;
    EXPECT_TRUE(graph::verify(p.graph)) << name;
  }
}

TEST_F(Scale, AFasterNetworkNeverTakesLonger) {
  Ns before = std::numeric_limits<Ns>::max();
  for (const char* fabric : {"10GbE", "25GbE", "HDR", "NDR"}) {
    const Ns step = predict({}, 8, fabric).step;
    EXPECT_LE(step, before) << fabric;
    before = step;
  }
}

TEST_F(Scale, ASlowWorkerHoldsAll) {
  Strategy slow;
  slow.slow_worker = 1.5;
  EXPECT_GT(predict(slow, 8, "NDR").step, predict({}, 8, "NDR").step * 13 / 10);
}

TEST_F(Scale, AnExplicitPlanIsTaken) {
  const Gradients g = *find_gradients(baseline_->model);
  Strategy s;
  s.buckets = pytorch_buckets(g, 5 << 20, 5 << 20);
  Strategy same;
  same.bucket_mb = 5;
  same.first_bucket_mb.reset();
  EXPECT_EQ(predict(s, 4).step, predict(same, 4).step);
  EXPECT_EQ(predict(s, 4).buckets, s.buckets->size());
}

TEST_F(Scale, PrioritiesGainMostWhereCommunicationEqualsComputation) {
  Strategy fifo;
  fifo.scheme = Scheme::kP3;
  fifo.priorities = false;
  Strategy p3;
  p3.scheme = Scheme::kP3;
  const auto gain = [&](double gbits) {
    hardware::Fabric f = *hardware::find_fabric("10GbE");
    f.levels[0] = {"net", hardware::LinkKind::kNetwork, gbits / 8, true, 1, 1, 0, false};
    const FabricCollectives model(f);
    const auto step = [&](const Strategy& s) {
      return static_cast<double>(predict_scale(baseline_->model, baseline_->report.measured, s, {&model, 4, 1})->step);
    };
    return step(fifo) / step(p3);
  };
  const double slow = gain(0.5);
  const double middle = gain(16);
  const double fast = gain(1000);
  EXPECT_GT(middle, slow + 0.02);
  EXPECT_GT(middle, fast + 0.02);
  EXPECT_NEAR(slow, 1, 0.06);
  EXPECT_NEAR(fast, 1, 0.06);
}

}  // namespace
}  // namespace foretrace::test
