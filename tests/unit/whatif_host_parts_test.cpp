// What a change adds to the CPU on top of its kernels: hooks, calls, copies, from mechanisms and the host's figures.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "foretrace/graph/graph.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/trace/trace.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "measured_step.hpp"
#include "whatif/model/op_chains.hpp"

namespace foretrace::whatif {
namespace {

using testing::HasSubstr;

const Model& model_of(const std::string& path) { return test::step_at(path).model; }

constexpr const char* kResnet = "examples/resnet50-h200.json.gz";
constexpr const char* kSolo = "data/h200-ranks/resnet50.mps.solo.w2.r0.json.gz";
constexpr const char* kSharded = "data/h200-ranks/resnet50.mps.fsdp.w2.r0.json.gz";
constexpr const char* kLoader = "data/h200-catalogue/resnet18.base.json.gz";
constexpr const char* kMobile = "data/h200-clean/mobilenet_v3_large@16.base.json.gz";
constexpr const char* kSmall = "data/h200-clean/gpt2@1-today.base.json.gz";

Prediction predicted(const Model& m, const std::string& use) {
  Prediction p = predict(m, {parse_use(use).value()}, std::nullopt);
  EXPECT_EQ(p.declined, "") << use;
  return p;
}

/// CPU tasks of this name: how many, and what they cost together.
std::pair<std::size_t, Ns> cpu_named(const Graph& g, std::string_view name) {
  std::pair<std::size_t, Ns> sum{0, 0};
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t]) || g.task_name(t) != name) continue;
    ++sum.first;
    sum.second += g.cost[t];
  }
  return sum;
}

std::size_t gpu_named(const Graph& g, std::string_view name) {
  std::size_t n = 0;
  for (std::size_t t = 0; t < g.size(); ++t) n += graph::is_gpu(g.kind[t]) && g.task_name(t) == name ? 1U : 0U;
  return n;
}

Ns cpu_time(const Graph& g) {
  Ns sum = 0;
  for (std::size_t t = 0; t < g.size(); ++t) sum += graph::is_gpu(g.kind[t]) ? 0 : g.cost[t];
  return sum;
}

TEST(Fsdp, HasAHookForEveryGatherCopyAndReductionOfATrace) {
  // What PyTorch's own ranges say of the job that runs under fully_shard.
  std::map<std::string, std::size_t> traced;
  const trace::Trace& t = *model_of(kSharded).trace;
  std::size_t steps = 0;
  for (std::size_t e = 0; e < t.size(); ++e) {
    const std::string_view name = t.name(e);
    if (t.kind(e) != trace::EventKind::kAnnotation) continue;
    steps += name.starts_with("ProfilerStep#") ? 1U : 0U;
    if (name.starts_with("FSDP::")) ++traced[std::string(name.substr(0, name.find(' ')))];
  }
  ASSERT_GT(steps, 0U);
  const Prediction p = predicted(model_of(kSolo), "fsdp:workers=2,fabric=25GbE");
  const std::size_t ahead = cpu_named(p.graph, "FSDP: gather parameters ahead").first;
  EXPECT_EQ(cpu_named(p.graph, "FSDP: gather parameters").first + ahead, traced["FSDP::all_gather"] / steps);
  EXPECT_EQ(gpu_named(p.graph, "FSDP: copy out"), traced["FSDP::all_gather_copy_out"] / steps);
  EXPECT_EQ(cpu_named(p.graph, "FSDP: reduce gradients").first, traced["FSDP::post_backward_reduce"] / steps);
}

TEST(Fsdp, AHookTakesSoMuchForItsUnitAndForEachTensor) {
  const Model& m = model_of(kSolo);
  const Prediction p = predicted(m, "fsdp:workers=2,fabric=25GbE");
  // 17 units (16 blocks and the root) hold the 161 tensors; every one of them is reduced once.
  const double unit = 17 * (1 - m.host.fsdp.fill_share) * m.host.fsdp.reduce_us;
  const double tensors = 161 * m.host.fsdp.reduce_tensor_us;
  EXPECT_NEAR(static_cast<double>(cpu_named(p.graph, "FSDP: reduce gradients").second),
              static_cast<double>(m.cpu_time(unit, host::CpuPhase::kBackward)), 1e3);
  EXPECT_NEAR(static_cast<double>(cpu_named(p.graph, "FSDP: gradients of the shards").second),
              static_cast<double>(m.cpu_time(tensors, host::CpuPhase::kBackward)), 1e3);
}

TEST(Fsdp, AFlatUnitIsNotCopiedAndItsHooksTakeTheirShare) {
  const Model& m = model_of(kSolo);
  const Prediction shards = predicted(m, "fsdp:workers=2,fabric=25GbE");
  const Prediction flat = predicted(m, "fsdp:workers=2,fabric=25GbE,version=1");
  EXPECT_EQ(gpu_named(flat.graph, "FSDP: copy out"), 0U);
  EXPECT_NEAR(static_cast<double>(cpu_named(flat.graph, "FSDP: gradients of the shards").second),
              m.host.fsdp.flat_tensor_share *
                  static_cast<double>(cpu_named(shards.graph, "FSDP: gradients of the shards").second),
              1e3);
}

TEST(Fsdp, AJobThatHasTheHooksGetsNone) {
  const Prediction p = predicted(model_of(kSharded), "fsdp:workers=8,fabric=25GbE");
  EXPECT_EQ(cpu_named(p.graph, "FSDP: reduce gradients").second, 0);
}

TEST(CudaGraph, OfSomeLayersIsLaunchedOnceInEitherPass) {
  const Model& m = model_of(kSmall);
  const Prediction one = predicted(m, "cuda-graph:layers=transformer.h.3");
  EXPECT_EQ(cpu_named(one.graph, "cudaGraphLaunch").first, 2U);
  // Its input comes from the block before, the gradient of its result from the one behind.
  EXPECT_GE(gpu_named(one.graph, "copy into the graph's memory"), 2U);
  const Prediction all = predicted(m, "cuda-graph:layers=transformer.h.*");
  EXPECT_EQ(cpu_named(all.graph, "cudaGraphLaunch").first, 24U);
  EXPECT_LT(all.step, one.step);
  EXPECT_LT(one.step, predicted(m, "cpu:x=1").step);
  // What is left of the CPU lies outside of the blocks; the whole step as one graph has less still.
  EXPECT_LT(cpu_time(all.graph), cpu_time(m.graph) / 2);
  EXPECT_GT(cpu_time(all.graph), cpu_time(predicted(m, "cuda-graph").graph));
  EXPECT_FALSE(all.validated);
}

TEST(CudaGraph, LaunchesAndCallsOfGraphedModulesCostWhatTheHostSays) {
  Model m = model_of(kSmall);
  const Ns usual = cpu_time(predicted(m, "cuda-graph:layers=transformer.h.*").graph);
  m.host.cuda_graph.call_us += 100;
  EXPECT_NEAR(
      static_cast<double>(cpu_time(predicted(m, "cuda-graph:layers=transformer.h.*").graph) - usual),
      static_cast<double>(m.cpu_time(1200, host::CpuPhase::kForward) + m.cpu_time(1200, host::CpuPhase::kBackward)),
      5e3);
  m.host.cuda_graph.call_us -= 100;
  m.host.python.function_us += 100;
  EXPECT_NEAR(
      static_cast<double>(cpu_time(predicted(m, "cuda-graph:layers=transformer.h.*").graph) - usual),
      static_cast<double>(m.cpu_time(1200, host::CpuPhase::kForward) + m.cpu_time(1200, host::CpuPhase::kBackward)),
      5e3);
}

/// What a change takes the CPU longer, in both passes, when a Triton kernel takes 10 us longer to launch: per us, how many are launched.
std::pair<double, double> launched_from_python(const Model& model, const std::string& use) {
  Model m = model;
  const auto by_pass = [&](host::CpuPhase pass) {
    Ns sum = 0;
    const Graph g = predicted(m, use).graph;
    for (std::size_t t = 0; t < g.size(); ++t) {
      if (!graph::is_gpu(g.kind[t]) && host::cpu_phase(g, t) == pass) sum += g.cost[t];
    }
    return sum;
  };
  const Ns forward = by_pass(host::CpuPhase::kForward), backward = by_pass(host::CpuPhase::kBackward);
  m.host.python.launch_us += 10;
  const auto each = [&](host::CpuPhase pass, Ns before) {
    return static_cast<double>(by_pass(pass) - before) / static_cast<double>(m.cpu_time(10, pass));
  };
  return {each(host::CpuPhase::kForward, forward), each(host::CpuPhase::kBackward, backward)};
}

TEST(OwnKernels, AreLaunchedFromPython) {
  // Counted where they ran (kernels.jsonl of data/h200-changes): three for each of ResNet-50's 33 norms with a ReLU, in either pass.
  const Model& m = model_of(kResnet);
  const auto [forward, backward] = launched_from_python(m, "batchnorm");
  EXPECT_NEAR(forward, 99, 0.5);
  EXPECT_NEAR(backward, 99, 0.5);
  // 31 norms of MobileNet: the activations are in place, and autograd copies what hard swish overwrites.
  const auto [mobile, mobile_back] = launched_from_python(model_of(kMobile), "batchnorm");
  EXPECT_NEAR(mobile, 93, 0.5);
  EXPECT_NEAR(mobile_back, 93, 0.5);
  // 156 tensors that wait in eight bits; in sixteen PyTorch converts them.
  const auto [encoded, decoded] = launched_from_python(m, "compress-activations:bits=8");
  EXPECT_NEAR(encoded, 156, 20);
  EXPECT_NEAR(decoded, 156, 20);
  EXPECT_EQ(launched_from_python(m, "compress-activations:bits=16").first, 0);
  // 49 ReLUs, a pooling layer, 48 inputs of convolutions in two kernels; backward 52 convolutions have them back.
  const auto [coded, restored] = launched_from_python(m, "compress-activations:code=lossless");
  EXPECT_NEAR(coded, 49 + 1 + 2 * 48, 15);
  EXPECT_NEAR(restored, 49 + 1 + 52, 10);
}

TEST(CudaGraph, OfLayersThatAreNotThereIsDeclined) {
  const Prediction p = predict(model_of(kResnet), {parse_use("cuda-graph:layers=encoder.*").value()}, std::nullopt);
  EXPECT_THAT(p.declined, HasSubstr("no layer of this step is called 'encoder.*'"));
}

TEST(Offload, EveryTensorPaysForItsHooks) {
  Model m = model_of(kResnet);
  const Ns usual = cpu_time(predicted(m, "offload").graph);
  const auto copies = static_cast<double>(gpu_named(predicted(m, "offload").graph, "copy to host"));
  m.host.eager.hooked_copy_us += 10;
  EXPECT_NEAR(static_cast<double>(cpu_time(predicted(m, "offload").graph) - usual),
              static_cast<double>(m.cpu_time(10 * copies, host::CpuPhase::kForward) +
                                  m.cpu_time(10 * copies, host::CpuPhase::kBackward)),
              2e3 * copies / 100);
}

TEST(Offload, UnderAutocastATensorIsSavedOnceInTheTypeItIsUsedIn) {
  const Graph g = predicted(model_of("data/h200-clean/gpt2-today.base.json.gz"), "offload").graph;
  Ns copies = 0;
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (g.kind[t] == TaskKind::kMemcpy && g.task_name(t) == "copy to host") copies += g.cost[t];
  }
  // Of the step that was measured: 221.4 ms on the GPU, 29.0 without the copies, which go both ways.
  EXPECT_NEAR(static_cast<double>(copies), (221.38e6 - 28.96e6) / 2, 0.05 * 96e6);
}

TEST(BatchNorm, InBf16LaunchesPytorchsKernels) {
  std::vector<Use> uses;
  for (const char* use : {"amp:dtype=bf16", "channels-last", "fused-optimizer"}) uses.push_back(parse_use(use).value());
  const Prediction p = predict(model_of("data/h200-clean/resnet50.base.json.gz"), uses, std::nullopt);
  ASSERT_EQ(p.declined, "");
  const auto launched = [](const Graph& g) {
    return static_cast<double>(std::count_if(g.kind.begin(), g.kind.end(), graph::is_gpu));
  };
  // The same network with all of that on; without the norms' launches a fifth would be missing.
  const double measured = launched(model_of("data/h200-clean/resnet50-image.base.json.gz").graph);
  EXPECT_NEAR(launched(p.graph), measured, 0.1 * measured);
  EXPECT_NEAR(static_cast<double>(gpu_named(p.graph, "batch norm, other kernels")), 53 * 5, 15);
}

TEST(Checkpoint, InsideACompiledNetworkFreesWhatItsBlocksKeep) {
  const Prediction p = predicted(model_of("data/h200-clean/gpt2-compiled.base.json.gz"), "checkpoint");
  ASSERT_TRUE(p.peak_bytes);
  EXPECT_NEAR(static_cast<double>(*p.peak_bytes), 4.283e9, 0.1 * 4.283e9);  // measured; 5.77 GB without checkpoints
}

TEST(Unprofiled, ACallThatGivesTheGpuNoWorkCostsTheProfilerLess) {
  // Recurrent layers of cuDNN: thousands of calls in addition to the launches.
  const analysis::Baseline& b = test::measured_step("h200-clean/lstm_lm@8");
  host::CpuPrior alike;
  alike.host.profiler.short_call_us = alike.host.profiler.call_us;
  const graph::Graph traced = graph::GraphBuilder(*b.model.trace, trace::find_steps(*b.model.trace)).build(0).value();
  const auto cpu = [&](const host::CpuPrior& prior) {
    return cpu_time(apply(traced, host::prior_factors(traced, prior), prior));
  };
  // Those that do next to nothing follow each other at once: whatever one is said to cost, no more comes off than that time.
  EXPECT_LT(cpu(alike), cpu(host::CpuPrior()) * 110 / 100);
  EXPECT_GT(b.model.host.profiler.call_us, b.model.host.profiler.short_call_us);
}

TEST(NoSync, TheOperationThatReadTheLossGoesWithItsWait) {
  const Model& m = model_of(kSmall);
  const auto items = [&](const Graph& g) {
    std::size_t n = 0;
    for (std::size_t t = 0; t < g.size(); ++t) {
      n += g.op[t].valid() && m.trace->name(m.chains->outermost(g.op[t].value)) == "aten::item" ? 1U : 0U;
    }
    return n;
  };
  ASSERT_GT(items(m.graph), 2U);
  EXPECT_EQ(items(predicted(m, "no-sync").graph), 0U);
}

TEST(DataLoader, ABatchIsTakenFromAQueueOrOpenedTensorByTensor) {
  const Model& m = model_of(kLoader);
  const Prediction pinned = predicted(m, "dataloader:workers=64");
  EXPECT_EQ(cpu_named(pinned.graph, "take a batch").second,
            m.cpu_time(m.host.loader.take_batch_us, host::CpuPhase::kForward));
  // Images and labels, each copied to the GPU.
  const Prediction plain = predicted(m, "dataloader:workers=64,pin=0");
  EXPECT_EQ(cpu_named(plain.graph, "take a batch").second,
            m.cpu_time(m.host.loader.open_batch_us + 2 * m.host.loader.open_tensor_us, host::CpuPhase::kForward));
  EXPECT_GT(plain.step, pinned.step);
}

TEST(DataLoader, PinningMovesToAThreadOfItsOwn) {
  const Model& m = model_of(kLoader);
  const Prediction p = predicted(m, "dataloader:workers=64");
  const auto [tasks, time] = cpu_named(p.graph, "pin a batch");
  EXPECT_EQ(tasks, 1U);
  EXPECT_NEAR(static_cast<double>(time), 7.1e6, 0.7e6);  // aten::pin_memory of 64 images, in the trace
  EXPECT_EQ(cpu_named(predicted(m, "dataloader:workers=64,pin=0").graph, "pin a batch").first, 0U);
}

}  // namespace
}  // namespace foretrace::whatif
