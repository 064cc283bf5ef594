// Model FLOPs, MFU and HFU of a step. The sums are what torch.utils.flop_counter (PyTorch 2.13) counts for the same models and
// batches; tools/flop_accuracy.py counts them again.

#include <gtest/gtest.h>

#include <string>

#include "foretrace/analysis/summary.hpp"
#include "foretrace/trace/load.hpp"
#include "trace_maker.hpp"

namespace foretrace::analysis {
namespace {

SummaryReport summary_of(const trace::Trace& trace) {
  Result<SummaryReport> report = summarise(trace, trace::find_steps(trace));
  EXPECT_TRUE(report) << (report ? "" : report.error().to_string());
  return report ? *report : SummaryReport{};
}

SummaryReport summary_of(const std::string& file) {
  const Result<trace::Trace> trace = trace::load(FORETRACE_SOURCE_DIR "/" + file);
  EXPECT_TRUE(trace) << file;
  return trace ? summary_of(*trace) : SummaryReport{};
}

void expect_within_two_percent(const std::string& file, double flop_counter) {
  const SummaryReport report = summary_of(file);
  ASSERT_TRUE(report.flops) << file << ": " << report.no_flops;
  EXPECT_NEAR(report.flops->model / flop_counter, 1, 0.02) << file;
}

TEST(Flops, AsFlopCounterCounts) {
  expect_within_two_percent("examples/resnet50-h200.json.gz", 1555140968448);
  expect_within_two_percent("data/h200-clean/bert_base.base.json.gz", 2735915139072);
}

TEST(Flops, WhatRunsASecondTimeIsNotTheModels) {
  const SummaryReport report = summary_of("data/h200-clean/bert_base.ckpt.json.gz");
  ASSERT_TRUE(report.flops) << report.no_flops;
  EXPECT_NEAR(report.flops->model / 2735915139072, 1, 0.001);
  EXPECT_GT(report.flops->recomputed, 0.2 * report.flops->model);
  const Ns step = report.gpu_time_offered();
  EXPECT_NEAR(*report.flops->hfu(step) / *report.flops->mfu(step), 1 + report.flops->recomputed / report.flops->model,
              1e-9);
}

TEST(Flops, PhasesAndLayersAddUp) {
  const SummaryReport report = summary_of("examples/resnet50-h200.json.gz");
  ASSERT_TRUE(report.flops);
  double phases = 0, layers = 0;
  for (const auto& row : report.phases) phases += row.flops.model;
  for (const auto& row : report.layers) layers += row.flops.model;
  EXPECT_NEAR(phases, report.flops->model, 1);
  EXPECT_NEAR(layers, report.flops->model, 1);
  EXPECT_EQ(report.gpu_time_offered(), report.simulated->unprofiled.step);
  // All of it in FP32, whose peak is 67 TFLOP/s on an H200.
  EXPECT_NEAR(*report.flops->peak_tflops(), 67, 1e-6);
}

// One product of 1024 x 1024 x 1024 in a step of 1 ms.
trace::Trace one_product(const std::string& properties, const std::string& shapes) {
  test::TraceMaker m;
  m.properties = properties;
  m.step(1, 0, 1'000'000);
  m.event("cpu_op", "aten::mm", 1, 1, {10'000, 100'000}, shapes);
  m.launch(1, {20'000, 30'000}, "ampere_sgemm_128x64_nn", {40'000, 900'000});
  return m.load();
}
const std::string kH200 = R"([{"id":0,"name":"NVIDIA H200","numSms":132,"totalGlobalMem":150121545728}])";
const std::string kShapes =
    R"("External id":1,"Input Dims":[[1024,1024],[1024,1024]],"Input type":["float","float"],"Concrete Inputs":["",""])";

TEST(Flops, KnownOnlyWithShapesAndAGpu) {
  const SummaryReport known = summary_of(one_product(kH200, kShapes));
  ASSERT_TRUE(known.flops) << known.no_flops;
  EXPECT_EQ(known.flops->model, 2.0 * 1024 * 1024 * 1024);
  EXPECT_TRUE(known.flops->mfu(known.gpu_time_offered()));

  const SummaryReport no_shapes = summary_of(one_product(kH200, R"("External id":1)"));
  EXPECT_FALSE(no_shapes.flops);
  EXPECT_NE(no_shapes.no_flops.find("shapes"), std::string::npos) << no_shapes.no_flops;

  const SummaryReport no_gpu = summary_of(one_product("", kShapes));
  ASSERT_TRUE(no_gpu.flops);
  EXPECT_TRUE(no_gpu.flops->achieved_tflops(no_gpu.gpu_time_offered()));
  EXPECT_FALSE(no_gpu.flops->mfu(no_gpu.gpu_time_offered()));
  EXPECT_FALSE(no_gpu.no_peak.empty());
}

}  // namespace
}  // namespace foretrace::analysis
