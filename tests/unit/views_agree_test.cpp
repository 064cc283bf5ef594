// doctor, summary, replay, whatif and compare tell one story about a step: over made traces, and over every trace at hand.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/analysis/doctor.hpp"
#include "foretrace/analysis/replay.hpp"
#include "foretrace/analysis/summary.hpp"
#include "foretrace/trace/load.hpp"
#include "trace/communication.hpp"
#include "trace/machine.hpp"
#include "trace_maker.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::analysis {
namespace {

using test::TraceMaker;
using ::testing::HasSubstr;

bool trains(const SummaryReport& summary) {
  return std::any_of(summary.phases.begin(), summary.phases.end(), [](const SummaryReport::PhaseRow& p) {
    return (p.name == "backward" || p.name == "optimizer") && (p.gpu_events > 0 || p.cpu_time > 0);
  });
}

void expect_one_story(const trace::Trace& trace, const std::string& where) {
  const trace::Steps steps = trace::find_steps(trace);
  const DoctorReport doctor = examine(trace, steps);
  const Result<Baseline> baseline = make_baseline(trace, std::nullopt, std::nullopt);
  const bool predicts = baseline && whatif::Predictor::check(baseline->model, true);
  EXPECT_EQ(doctor.predicts(), predicts) << where << ": " << doctor.verdict();
  const Result<SummaryReport> summary = summarise(trace, steps);
  if (!summary || !summary->simulated || !baseline || !doctor.replay) return;
  const StepVerdict& said = summary->simulated->verdict;
  for (const StepVerdict& other : {doctor.replay->verdict, baseline->figures.verdict}) {
    EXPECT_EQ(other.unprofiled.sentence(), said.unprofiled.sentence()) << where;
    EXPECT_EQ(other.traced.sentence(), said.traced.sentence()) << where;
  }
  if (doctor.find("no_training") != nullptr) {
    EXPECT_FALSE(trains(*summary)) << where;
  }
  // What bounds the step is on its critical path.
  const simulate::Breakdown& parts = summary->simulated->breakdown;
  const auto share = [&](Ns part) { return static_cast<double>(part) / static_cast<double>(parts.step); };
  constexpr double kMuch = 0.25;  // steps in a row have several paths of almost one length, of which one is shown
  using simulate::BoundBy;
  if (said.traced.by == BoundBy::kCpu || said.traced.by == BoundBy::kLoading) {
    EXPECT_GT(share(parts.path_cpu), kMuch) << where;
  }
  if (said.traced.by == BoundBy::kGpu) {
    EXPECT_GT(share(parts.path_gpu), kMuch) << where;
  }
}

void expect_one_story_in(const std::filesystem::path& folder) {
  std::size_t seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".json.gz") && !name.ends_with(".xplane.pb.gz")) continue;
    constexpr std::uintmax_t kLargest = 4'000'000;  // the rest takes minutes and shows nothing else
    if (entry.file_size() > kLargest || name.starts_with("made-overlap")) continue;
    const Result<trace::Trace> trace = trace::load(entry.path().string());
    if (!trace) continue;
    ++seen;
    expect_one_story(*trace, entry.path().string());
  }
  EXPECT_GT(seen, 0U) << folder;
}

TEST(ViewsAgree, Examples) { expect_one_story_in(std::filesystem::path(FORETRACE_SOURCE_DIR) / "examples"); }

TEST(ViewsAgree, OurRecordings) {
  expect_one_story_in(std::filesystem::path(FORETRACE_SOURCE_DIR) / "data" / "h200-catalogue");
  expect_one_story_in(std::filesystem::path(FORETRACE_SOURCE_DIR) / "data" / "h200-jax");
}

TEST(ViewsAgree, PublicTraces) {
  const char* folder = std::getenv("FORETRACE_PUBLIC");
  if (folder == nullptr) GTEST_SKIP() << "FORETRACE_PUBLIC is not set";
  expect_one_story_in(folder);
}

TEST(ViewsAgree, ARankThatOnlyCopiesIsDeclined) {
  TraceMaker m;
  m.call("cudaMemcpyAsync", {10'000, 15'000}, 1).copy(1, "Memcpy HtoD (Pageable -> Device)", {20'000, 40'000});
  m.op("aten::copy_", 5'000, 50'000).step(3, 0, 60'000);
  const trace::Trace trace = m.load();
  const DoctorReport doctor = examine(trace, trace::find_steps(trace));
  EXPECT_FALSE(doctor.predicts()) << doctor.verdict();
  EXPECT_THAT(doctor.verdict(), HasSubstr("runs no kernel"));
  expect_one_story(trace, "copies only");
}

TEST(ViewsAgree, ATpuIsCalledOneAndDeclined) {
  TraceMaker m;
  m.op("step", 5'000, 50'000).launch(1, {10'000, 15'000}, "fusion.1", {20'000, 40'000}).step(3, 0, 60'000);
  trace::Trace trace = m.load();
  trace.metadata.emplace_back(trace::kAcceleratorKey, "\"TPU\"");
  const DoctorReport doctor = examine(trace, trace::find_steps(trace));
  EXPECT_FALSE(doctor.predicts());
  EXPECT_THAT(doctor.verdict(), HasSubstr("profile of a TPU"));
  expect_one_story(trace, "TPU");
}

TEST(ViewsAgree, TensorFlowIsNotJax) {
  TraceMaker m;
  m.op("ExecutorState::Process", 5'000, 50'000)
      .launch(1, {10'000, 15'000}, "gemm", {20'000, 40'000})
      .step(3, 0, 60'000);
  trace::Trace trace = m.load();
  EXPECT_EQ(trace::framework_of(trace), trace::Framework::kPyTorch);
  trace.format = "xplane";
  EXPECT_EQ(trace::framework_of(trace), trace::Framework::kTensorFlow);
  const Result<Baseline> baseline = make_baseline(trace, std::nullopt, std::nullopt);
  ASSERT_TRUE(baseline) << baseline.error().to_string();
  const Result<std::vector<whatif::Use>> compile = parse_uses({"compile"});
  const Result<std::vector<whatif::Use>> cpu = parse_uses({"cpu:x=2"});
  ASSERT_TRUE(compile && cpu);
  EXPECT_THAT(predict(*baseline, *compile).declined, HasSubstr("TensorFlow program"));
  EXPECT_TRUE(predict(*baseline, *cpu).declined.empty()) << predict(*baseline, *cpu).declined;
}

// The GPU works four times as long as the CPU launches, and nothing waits for it.
TEST(ViewsAgree, AGpuThatOutlastsItsRangeIsNoReplayError) {
  TraceMaker m;
  Ns gpu = 20'000;
  for (int i = 1; i <= 10; ++i) {
    const Ns at = 10'000 * i;
    m.op("aten::mm", at, at + 9'000).launch(i, {at + 2'000, at + 6'000}, "gemm", {gpu, gpu + 40'000});
    gpu += 40'000;
  }
  m.step(3, 0, 120'000);
  const trace::Trace trace = m.load();
  const DoctorReport doctor = examine(trace, trace::find_steps(trace));
  ASSERT_TRUE(doctor.replay);
  EXPECT_TRUE(doctor.replay->outlasts);
  EXPECT_EQ(doctor.find("replay_off"), nullptr);
  ASSERT_NE(doctor.find("gpu_outlasts_range"), nullptr);
  EXPECT_EQ(doctor.replay->verdict.unprofiled.by, simulate::BoundBy::kGpu);
}

TEST(ViewsAgree, UserRangesAreNoLayers) {
  TraceMaker m;
  m.range("## forward ##", 5'000, 45'000).range("encoder.layer.3", 12'000, 30'000);
  m.op("aten::mm", 15'000, 25'000).launch(1, {16'000, 20'000}, "gemm", {30'000, 60'000});
  m.op("aten::add", 33'000, 40'000).launch(2, {34'000, 38'000}, "add", {60'000, 80'000});
  m.call("cudaDeviceSynchronize", {50'000, 85'000}, 3).step(3, 0, 200'000);
  const test::Replay r(m);
  const auto layer = [&](std::string_view task) {
    const graph::LayerId id = r.graph.layer[r.task(task)];
    return id.valid() ? std::string(r.graph.strings[r.graph.layers[id.index()].name]) : std::string();
  };
  EXPECT_EQ(layer("gemm"), "encoder.layer.3");
  EXPECT_THAT(layer("add"), ::testing::Not(HasSubstr("forward")));
}

TEST(OneRank, AJobIsNamedInTheAnswer) {
  TraceMaker m;
  m.op("aten::mm", 10'000, 20'000).launch(1, {12'000, 18'000}, "gemm", {20'000, 60'000});
  m.launch(2, {22'000, 26'000}, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", {60'000, 90'000});
  m.call("cudaDeviceSynchronize", {30'000, 95'000}, 3).step(3, 0, 100'000);
  trace::Trace trace = m.load();
  trace.distributed.present = true;
  trace.distributed.rank = 3;
  trace.distributed.world_size = 8;
  const Result<Baseline> baseline = make_baseline(trace, std::nullopt, std::nullopt);
  ASSERT_TRUE(baseline) << baseline.error().to_string();
  ASSERT_TRUE(baseline->figures.one_rank);
  EXPECT_THAT(baseline->figures.one_rank->sentence(), HasSubstr("rank 3 of 8 alone"));
  const Result<std::vector<whatif::Use>> uses = parse_uses({"cpu:x=2"});
  ASSERT_TRUE(uses);
  EXPECT_THAT(predict(*baseline, *uses).not_modelled, ::testing::Contains(HasSubstr("rank 3 of 8 alone")));
}

// What other ranks make a rank wait inside a collective is no transfer: a faster network gains the same, little, on all of them.
TEST(OneRank, AFasterNetworkShortensTransfersOnly) {
  const char* folder = std::getenv("FORETRACE_PUBLIC");
  if (folder == nullptr) GTEST_SKIP() << "FORETRACE_PUBLIC is not set";
  const Result<std::vector<whatif::Use>> uses = parse_uses({"bandwidth:x=10"});
  ASSERT_TRUE(uses);
  for (int rank = 0; rank < 8; ++rank) {
    const auto path = std::filesystem::path(folder) / "dlrm-8ranks-v100" / fmt::format("rank{}.json.gz", rank);
    const Result<trace::Trace> trace = trace::load(path.string());
    ASSERT_TRUE(trace) << trace.error().to_string();
    const Result<Baseline> baseline = make_baseline(*trace, std::nullopt, std::nullopt);
    ASSERT_TRUE(baseline) << baseline.error().to_string();
    const whatif::Prediction p = predict(*baseline, *uses);
    ASSERT_TRUE(p.declined.empty()) << p.declined;
    EXPECT_LT(p.speedup, 1.1) << rank;
  }
}

TEST(Communication, KernelsOfEveryLibraryAreKnownByName) {
  for (const char* name :
       {"void dpsk::ep::internode::dispatch_ll<true>(…)", "void deep_ep::intranode::combine<…>", "nvshmemi_barrier",
        "ncclDevKernel_SendRecv(…)", "mscclpp::allreduce", "void vllm::cross_device_reduce_1stage<…>",
        "void tensorrt_llm::kernels::twoShotAllReduceKernel<…>", "kuserbuffers_pushrecv(…)", "oneccl_allreduce_pcie",
        "void (anonymous namespace)::one_shot_all_reduce_kernel<…>", "quickreduce::allreduce_prototype_twoshot<…>",
        "multimem_all_reduce_kernel", "allreduce_fusion_kernel_oneshot_lamport<…>"}) {
    EXPECT_TRUE(trace::is_communication_kernel(name)) << name;
  }
  for (const char* name : {"void at::native::reduce_kernel<512, 1>(…)", "small_reduce_kernel", "dispatch_table_kernel",
                           "void at::native::vectorized_gather_kernel<16, long>"}) {
    EXPECT_FALSE(trace::is_communication_kernel(name)) << name;
  }
}

}  // namespace
}  // namespace foretrace::analysis
