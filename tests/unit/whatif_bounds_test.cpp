// Bounds that no prediction falls below, and bands that recorded steps hold apart.

#include <gtest/gtest.h>

#include <cmath>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "trace_maker.hpp"
#include "whatif/predict/bounds.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::whatif {
namespace {

analysis::Baseline baseline_of(const trace::Trace& trace) {
  return analysis::make_baseline(trace, std::nullopt, std::nullopt).value();
}

Prediction predicted(const trace::Trace& trace, const char* use) {
  const analysis::Baseline base = baseline_of(trace);
  return analysis::predict(base, {parse_use(use).value()});
}

/// A change of kernels: all GPU work takes `x` times as long, whatever it is.
Use all_kernels(double x) {
  const auto own =
      std::make_shared<const WhatIf>(WhatIf{.name = "all-kernels",
                                            .changes = Changes::kKernels,
                                            .apply = [x](Model&, Draft& draft, const Parameters&) -> Status {
                                              draft.scale(draft.select({.gpu = true}), x);
                                              return {};
                                            }});
  return {.whatif = own.get(), .text = own->name, .own = own};
}

trace::Trace resnet() {
  return trace::load(std::string(FORETRACE_SOURCE_DIR) + "/examples/resnet50-h200.json.gz").value();
}

// Two kernels of 400 us, each on a stream of its own. The CPU launches the second one when the first one is over.
trace::Trace one_after_the_other() {
  test::TraceMaker m;
  m.step(1, 0, 1'100'000);
  m.op("aten::mm", 0, 1'000'000);
  m.launch(1, {10'000, 15'000}, "first", {20'000, 420'000}, 7);
  m.launch(2, {600'000, 605'000}, "second", {610'000, 1'010'000}, 8);
  m.call("cudaDeviceSynchronize", {1'000'000, 1'015'000}, 3);
  return m.load();
}

TEST(Bounds, AFasterCpuDoesNotMakeTheGpuFaster) {
  const Prediction p = predicted(one_after_the_other(), "cpu:x=1000");
  ASSERT_EQ(p.declined, "");
  EXPECT_EQ(p.bound.by, "GPU busy time");
  EXPECT_EQ(p.bound.step, 800'000);
  EXPECT_GE(p.step, 800'000);
  EXPECT_TRUE(p.bound.decided) << "in the simulation the two streams overlap: " << p.step;
  EXPECT_GE(p.high, p.step);
  EXPECT_LE(p.low, p.step);
}

TEST(Bounds, WorkThatOverlappedCountsOnce) {
  test::TraceMaker m;
  m.step(1, 0, 700'000);
  m.op("aten::mm", 0, 600'000);
  m.launch(1, {10'000, 15'000}, "first", {20'000, 420'000}, 7);
  m.launch(2, {100'000, 105'000}, "second", {120'000, 520'000}, 8);
  m.call("cudaDeviceSynchronize", {600'000, 605'000}, 3);
  const Prediction p = predicted(m.load(), "cpu:x=2");
  ASSERT_EQ(p.declined, "");
  EXPECT_EQ(p.bound.step, 500'000);
}

TEST(Bounds, TimesThatTheQuestionGivesAreNotDoubted) {
  const Prediction p = predicted(resnet(), "duration:select=*,x=0");
  ASSERT_EQ(p.declined, "");
  EXPECT_FALSE(p.bound.decided);
}

TEST(Bounds, NoKernelIsFasterThanTheGpusPeakRates) {
  const trace::Trace trace = resnet();
  const analysis::Baseline base = baseline_of(trace);
  const std::vector<Use> uses = {parse_use("cpu:x=1000").value(), all_kernels(0.001)};
  const Prediction p = analysis::predict(base, uses);
  ASSERT_EQ(p.declined, "");
  EXPECT_TRUE(p.bound.decided);
  EXPECT_EQ(p.bound.by, "roofline");
  EXPECT_EQ(p.step, p.bound.step);
  // 4 GFLOP for each of 3 passes and 128 images at 67 TFLOP/s is some 20 ms; Winograd may take a quarter of that.
  EXPECT_GT(p.step, 5'000'000);
  EXPECT_LT(p.step, base.figures.unprofiled);
  // The same with a search's detail.
  EXPECT_EQ(analysis::predict(base, uses, Detail::kStepOnly).step, p.step);
  // The text says so.
  const std::string text = to_text(report::WhatIfReport{base.figures, {p}}, report::TextStyle{});
  EXPECT_NE(text.find("limited by the bound"), std::string::npos) << text;
}

// 137 GFLOP, at least 2.05 ms on an H200 in FP32; a kernel of 2.2 ms multiplies, one of 100 us adds what it left.
TEST(Bounds, TheKernelsOfAnOperationShareItsFloor) {
  test::TraceMaker m;
  m.properties =
      R"([{"id":0,"name":"NVIDIA H200","totalGlobalMem":150000000000,"computeMajor":9,"computeMinor":0,"numSms":132}])";
  m.step(1, 0, 2'500'000);
  m.event("cpu_op", "aten::mm", m.pid, m.tid, {0, 20'000},
          R"("Input Dims":[[4096,4096],[4096,4096]],"Input type":["float","float"])");
  m.launch(1, {5'000, 8'000}, "sgemm_128x128", {20'000, 2'220'000});
  m.launch(2, {10'000, 13'000}, "splitKreduce_kernel", {2'221'000, 2'321'000});
  m.call("cudaDeviceSynchronize", {30'000, 2'330'000}, 3);
  const auto second =
      std::make_shared<const WhatIf>(WhatIf{.name = "second-kernel",
                                            .changes = Changes::kKernels,
                                            .apply = [](Model&, Draft& draft, const Parameters&) -> Status {
                                              draft.scale(draft.select({.name = "splitK*"}), 0.5);
                                              return {};
                                            }});
  const trace::Trace trace = m.load();
  const Prediction none = analysis::predict(baseline_of(trace), {all_kernels(0.001)});
  EXPECT_NEAR(static_cast<double>(none.bound.step), 2.05e6, 0.1e6) << "the product is not recognised";
  const Prediction p =
      analysis::predict(baseline_of(trace), {Use{.whatif = second.get(), .text = second->name, .own = second}});
  ASSERT_EQ(p.declined, "");
  EXPECT_FALSE(p.bound.decided) << p.bound.step;
  EXPECT_GE(p.bound.step, 2'200'000);
  EXPECT_LE(p.bound.step, 2'300'000) << "the product's floor counts once, not again for its second kernel";
}

TEST(Bounds, AKernelATenthFasterIsPossible) {
  const trace::Trace trace = resnet();
  const Prediction p = analysis::predict(baseline_of(trace), {all_kernels(0.9)});
  EXPECT_FALSE(p.bound.decided);
  EXPECT_GT(p.bound.step, 0);
}

TEST(Bounds, ALargeGainIsPrintedWithWhatSupportsIt) {
  test::TraceMaker m;
  m.step(1, 0, 10'100'000);
  m.op("aten::mm", 0, 10'000'000);
  m.launch(1, {9'900'000, 9'905'000}, "only", {9'910'000, 9'950'000});
  m.call("cudaDeviceSynchronize", {10'000'000, 10'005'000}, 2);
  const trace::Trace trace = m.load();
  const analysis::Baseline base = baseline_of(trace);
  const Prediction p = analysis::predict(base, {parse_use("cpu:x=100").value()});
  ASSERT_GT(p.speedup, 5);
  const std::string text = to_text(report::WhatIfReport{base.figures, {p}}, report::TextStyle{});
  EXPECT_NE(text.find("is a large gain"), std::string::npos) << text;
  EXPECT_NE(text.find("(GPU busy time)"), std::string::npos) << text;
}

// Steps of these lengths, each with a kernel behind a launch.
trace::Trace steps_of(std::initializer_list<Ns> lengths) {
  test::TraceMaker m;
  int number = 0;
  Ns at = 0;
  for (const Ns length : lengths) {
    ++number;
    m.step(number, at, at + length);
    m.op("aten::mm", at, at + length - 300'000);
    m.launch(number, {at + 1'000'000, at + 1'005'000}, "gemm", {at + 1'010'000, at + 2'010'000});
    m.call("cudaDeviceSynchronize", {at + length - 200'000, at + length - 190'000}, 100 + number);
    at += length;
  }
  return m.load();
}

double width(const Prediction& p) { return static_cast<double>(p.high - p.low); }

bool says(const Prediction& p, std::string_view what) {
  for (const std::string& reason : p.band_reasons()) {
    if (reason.find(what) != std::string::npos) return true;
  }
  return false;
}

TEST(BandsOfSteps, NoBandIsNarrowerThanTheRecordedStepsAreSpread) {
  const trace::Trace trace = steps_of({22'000'000, 22'300'000, 51'400'000});
  const Prediction p = predicted(trace, "no-sync");
  const Prediction faster = predicted(trace, "cpu:x=2");
  // 10th to 90th percentile, interpolated: 22.06 to 45.58 ms.
  for (const Prediction* one : {&p, &faster}) {
    ASSERT_EQ(one->declined, "");
    EXPECT_GE(static_cast<double>(one->high) / static_cast<double>(one->low), 0.999 * 45.58 / 22.06) << one->whatif;
    EXPECT_TRUE(says(*one, "the 3 recorded steps took 22.06 to 45.58 ms"));
  }
}

TEST(BandsOfSteps, StepsThatAreAlikeDoNotWidenIt) {
  const Prediction p = predicted(steps_of({22'000'000, 22'000'000, 22'000'000}), "cpu:x=2");
  EXPECT_FALSE(says(p, "recorded")) << p.band_reasons().front();
}

TEST(BandsOfSteps, OneStepIsNeverQuiet) {
  const trace::Trace one = steps_of({22'000'000}), three = steps_of({22'000'000, 22'000'000, 22'000'000});
  const Prediction alone = predicted(one, "cpu:x=2"), among = predicted(three, "cpu:x=2");
  EXPECT_TRUE(says(alone, "one step was recorded"));
  EXPECT_GT(width(alone) / static_cast<double>(alone.step), 1.02 * width(among) / static_cast<double>(among.step));
  EXPECT_LT(baseline_of(one).figures.unprofiled_low, baseline_of(three).figures.unprofiled_low);
  // A measured step is the median of many.
  const analysis::Baseline timed = analysis::make_baseline(one, std::nullopt, 15.0).value();
  EXPECT_FALSE(says(analysis::predict(timed, {parse_use("cpu:x=2").value()}), "one step was recorded"));
}

TEST(BandsOfSteps, WhatNobodyValidatedIsLessSure) {
  const trace::Trace trace = resnet();
  EXPECT_TRUE(says(analysis::predict(baseline_of(trace), {all_kernels(0.9)}), "no measured step checked this change"));
  EXPECT_TRUE(says(predicted(trace, "half"), "no measured step checked this change"));
  EXPECT_FALSE(says(predicted(trace, "fused-optimizer"), "no measured step checked this change"));
}

TEST(BandsOfSteps, AnUnknownGpuWidensWhatChangesOnIt) {
  const trace::Trace trace = resnet();
  analysis::Baseline base = baseline_of(trace);
  const auto tf32 = [&] { return analysis::predict(base, {parse_use("tf32").value()}); };
  const Prediction known = tf32();
  base.model.device_guess = "by properties: 'H200-like' looks like H200-SXM";
  EXPECT_GT(width(tf32()), width(known));
  EXPECT_TRUE(says(tf32(), "the GPU is not in the list"));
  // Kernels that stay as they are do not depend on what the GPU is.
  EXPECT_FALSE(says(analysis::predict(base, {parse_use("cpu:x=1.1").value()}), "the GPU is not in the list"));
}

}  // namespace
}  // namespace foretrace::whatif
