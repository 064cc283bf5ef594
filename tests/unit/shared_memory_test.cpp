// Ranks on parts of one GPU that meet in collectives: kernels that stream share its memory. Measured times are those of the jobs in
// data/h200-parallel and data/h200-jobs.

#include "hardware/shared_memory.hpp"

#include "hardware/figures.hpp"
#include "measured_step.hpp"

namespace foretrace::hardware {
namespace {

Device part_of(int sms) {
  Device d = find_device("H200-SXM").value();
  d.sm_count = sms;
  return d;
}

work::Work log_softmax(bool backward, std::int64_t rows, std::int64_t columns) {
  work::Work w(work::Family::kSoftmax);
  w.backward = backward;
  w.kind = work::Rows{.rows = rows, .columns = columns, .operation = work::Rows::Operation::kLog};
  const double tensor = 4.0 * static_cast<double>(rows * columns);
  w.bytes_read = (backward ? 2 : 1) * tensor;
  w.bytes_written = tensor;
  return w;
}

TEST(SharedMemory, CountsThePartsOfAGpu) {
  EXPECT_DOUBLE_EQ(parts_of_gpu(part_of(33)).count, 4);
  EXPECT_DOUBLE_EQ(parts_of_gpu(part_of(132)).count, 1);
  Device unknown;
  unknown.sm_count = 20;
  EXPECT_DOUBLE_EQ(parts_of_gpu(unknown).count, 1);
}

TEST(SharedMemory, LongRowsOfASoftmaxAreReadInEveryPass) {
  const Device whole = part_of(132);
  const double tensor = 4.0 * 8192 * 32000;
  EXPECT_DOUBLE_EQ(bytes_to_memory(log_softmax(false, 8192, 32000), whole), 4 * tensor - 50e6);
  EXPECT_DOUBLE_EQ(bytes_to_memory(log_softmax(true, 8192, 32000), whole), 4 * tensor - 50e6);
  // A row of 8,000 numbers stays in shared memory.
  EXPECT_DOUBLE_EQ(bytes_to_memory(log_softmax(false, 32768, 8000), whole), 2 * tensor - 50e6);
}

TEST(SharedMemory, TheLossOfRanksInStepTakesWhatTheMemoryNeeds) {
  // Forward and backward of 8,192 tokens over 32,000 words, measured in tensor and expert parallel jobs: 3.85 ms on halves of an H200, 7.94
  // on quarters.
  for (const auto& [sms, ms] : {std::pair{66, 3.85}, std::pair{33, 7.94}}) {
    const Parts parts = parts_of_gpu(part_of(sms));
    const double least = least_in_step_ns(log_softmax(false, 8192, 32000), parts) +
                         least_in_step_ns(log_softmax(true, 8192, 32000), parts);
    EXPECT_NEAR(least / 1e6, ms, 0.05 * ms);
  }
  EXPECT_DOUBLE_EQ(least_in_step_ns(log_softmax(false, 8192, 32000), parts_of_gpu(part_of(132))), 0);
}

TEST(SharedMemory, WhatTheCacheMayHoldIsNotCounted) {
  EXPECT_DOUBLE_EQ(
      least_in_step_ns(work::elementwise_work(4'000'000, 2, 1, work::Dtype::kFp32), parts_of_gpu(part_of(66))), 0);
}

}  // namespace
}  // namespace foretrace::hardware

namespace foretrace::test {
namespace {

// Of kernels of the loss and the update, in milliseconds.
std::pair<double, double> loss_and_update(const whatif::Model& m) {
  std::pair<double, double> ms;
  for (std::uint32_t t = 0; t < m.graph.size(); ++t) {
    if (m.graph.kind[t] != graph::TaskKind::kKernel) continue;
    const double cost = static_cast<double>(m.graph.cost[t]) / 1e6;
    if (m.graph.task_name(t).find("cunn_SoftMax") != std::string_view::npos) ms.first += cost;
    if (m.graph.phase[t] == graph::Phase::kOptimizer) ms.second += cost;
  }
  return ms;
}

TEST(SharedMemory, ExpertsThatExchangeTokensMakeRanksMeet) {
  const whatif::Model& alone = step_at("data/h200-parallel/moeB.inside.solo.w4.r0.json.gz").model;
  const Result<whatif::Use> use = whatif::parse_use("ep:size=4,reduce=0,fabric=DGX-H100");
  ASSERT_TRUE(use);
  const Result<whatif::Model> job = whatif::apply_uses(alone, {*use});
  ASSERT_TRUE(job) << job.error().to_string();
  const auto [loss, update] = loss_and_update(alone);
  const auto [loss_now, update_now] = loss_and_update(*job);
  EXPECT_GT(loss_now, 1.1 * loss);
  // Each rank reads and writes 28 bytes for each of its parameters, at a quarter of 4.3 TB/s.
  EXPECT_GE(update_now, 0.98 * 4 * 28 * static_cast<double>(job->parameter_elements) / 4320 / 1e6);
}

// The time on the CPU of what the step had before, in milliseconds.
double cpu_ms(const whatif::Model& m) {
  double ms = 0;
  for (std::uint32_t t = 0; t < m.graph.size(); ++t) {
    const bool cpu = m.graph.kind[t] == graph::TaskKind::kCpu || m.graph.kind[t] == graph::TaskKind::kCall;
    if (cpu) ms += static_cast<double>(m.graph.cost[t]) / 1e6;
  }
  return ms;
}

TEST(SharedMemory, RanksOnOneHostWaitForTheSlowestProcess) {
  const whatif::Model& alone = step_at("data/h200-parallel/moeB.inside.solo.w4.r0.json.gz").model;
  const Result<whatif::Use> use = whatif::parse_use("ep:size=4,reduce=0,fabric=DGX-H100");
  ASSERT_TRUE(use);
  const Result<whatif::Model> job = whatif::apply_uses(alone, {*use});
  ASSERT_TRUE(job);
  // Of four processes the slowest takes 1.03 standard deviations longer, and the exchange of tokens comes on top.
  EXPECT_GT(cpu_ms(*job), std::exp(alone.host.uncertainty.run_to_run) * cpu_ms(alone));
}

TEST(SharedMemory, CollectivesInsideOneGpuLoseMoreToKernels) {
  const whatif::Model& alone = step_at("data/h200-parallel/moeB.inside.solo.w2.r0.json.gz").model;
  const auto lost = [&](const std::string& network) {
    const Result<whatif::Use> use = whatif::parse_use("ddp:workers=2," + network);
    EXPECT_TRUE(use);
    const Result<whatif::Model> job = whatif::apply_uses(alone, {*use});
    EXPECT_TRUE(job) << job.error().to_string();
    return job->interference->collective;
  };
  const hardware::Figures& figures = hardware::measured_figures(alone.device);
  const std::string file = std::string(FORETRACE_SOURCE_DIR) + "/data/h200-parallel/collectives.jsonl";
  EXPECT_DOUBLE_EQ(lost("collectives='" + file + "',collectives_tag=inside"), figures.collective_inside);
  EXPECT_DOUBLE_EQ(lost("fabric=25GbE"), figures.collective_contention);
}

}  // namespace
}  // namespace foretrace::test
