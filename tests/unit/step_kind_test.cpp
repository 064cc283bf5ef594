// What a step does, and what is proposed for it.

#include "graph/step_kind.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/make_model.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/search/optimize.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "report/inference_script.hpp"
#include "trace_maker.hpp"
#include "whatif/model/fitting.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace {
namespace {

using graph::StepKind;
using graph::StepNature;
using test::TraceMaker;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

StepNature nature(const TraceMaker& m) {
  const trace::Trace trace = m.load();
  const trace::Steps steps = trace::find_steps(trace);
  const Result<graph::Graph> graph = graph::GraphBuilder(trace, steps).build(0);
  EXPECT_TRUE(graph.has_value());
  return graph ? graph::step_nature(trace, *graph) : StepNature{};
}

TraceMaker named(std::string_view step) {
  TraceMaker m;
  m.range(step, 0, 1'000'000);
  m.op("aten::mm", 10'000, 90'000).launch(1, {20'000, 30'000}, "gemm", {40'000, 100'000});
  return m;
}

TEST(StepKind, EnginesSayIt) {
  const StepNature rocm = nature(named("execute_32_context_0(sq0sk0)_generation_32(sq32sk32785)"));
  EXPECT_EQ(rocm.kind, StepKind::kDecode);
  EXPECT_EQ(rocm.sequences, 32);
  EXPECT_EQ(nature(named("execute_context_2(300)_generation_5(5)")).kind, StepKind::kPrefill);
  EXPECT_EQ(nature(named("execute_context_0(0)_generation_5(5)")).sequences, 5);
  EXPECT_EQ(nature(named("step[DECODE bs=16]")).sequences, 16);
  EXPECT_EQ(nature(named("step[EXTEND bs=1 toks=512]")).kind, StepKind::kPrefill);
  const StepNature trt = nature(named("[Executor] _forward_step 7: 0 ctx reqs, 0 ctx tokens, 12 gen reqs"));
  EXPECT_EQ(trt.kind, StepKind::kDecode);
  EXPECT_EQ(trt.sequences, 12);
  EXPECT_EQ(nature(named("denoising_step 3")).kind, StepKind::kDiffusion);
}

TEST(StepKind, PhasesAndKernelsSayIt) {
  TraceMaker training = named("ProfilerStep#1");
  training.thread(2).op("autograd::engine::evaluate_function: MmBackward0", 200'000, 300'000, 1);
  training.launch(2, {210'000, 220'000}, "gemm", {230'000, 290'000});
  EXPECT_EQ(nature(training).kind, StepKind::kTraining);
  EXPECT_EQ(nature(named("ProfilerStep#1")).kind, StepKind::kEvaluation);
  TraceMaker paged = named("ProfilerStep#1");
  paged.launch(3, {310'000, 320'000}, "paged_attention_v2_kernel", {330'000, 390'000});
  EXPECT_EQ(nature(paged).kind, StepKind::kDecode);
  TraceMaker kernels;
  kernels.step(1, 0, 1'000'000);
  kernels.launch(1, {20'000, 30'000}, "gemm", {40'000, 100'000});
  EXPECT_EQ(nature(kernels).kind, StepKind::kUnknown);
  kernels.launch(2, {220'000, 230'000}, "layer_norm_backward_kernel", {240'000, 300'000});
  EXPECT_EQ(nature(kernels).kind, StepKind::kTraining);
}

TEST(StepKind, OneQueryPerSequenceIsDecoding) {
  const auto attention = [](std::string_view dims) {
    TraceMaker m = named("ProfilerStep#1");
    m.event("cpu_op", "aten::scaled_dot_product_attention", 1, 1, {300'000, 400'000},
            fmt::format("\"Input Dims\":{}", dims));
    m.launch(2, {310'000, 320'000}, "attention", {330'000, 390'000});
    return nature(m).kind;
  };
  EXPECT_EQ(attention("[[4,8,1,64],[4,8,512,64],[4,8,512,64]]"), StepKind::kDecode);
  EXPECT_EQ(attention("[[4,8,512,64],[4,8,512,64],[4,8,512,64]]"), StepKind::kEvaluation);
}

constexpr const char* kH200 =
    R"([{"id":0,"name":"NVIDIA H200","totalGlobalMem":150000000000,"computeMajor":9,"computeMinor":0,"numSms":132}])";

/// A decode step of 32 sequences: two products of 1 ms, attention of 1 ms, norms of 10 us.
TraceMaker decode_step(std::string_view name, std::string_view product = "nvjet_hsh_64x32_bf16") {
  TraceMaker m;
  m.properties = kH200;
  m.range(name, 0, 4'000'000);
  m.call("cudaGraphLaunch", {10'000, 30'000}, 1);
  m.kernel(1, product, {40'000, 1'040'000}).kernel(1, "paged_attention_v2_kernel", {1'041'000, 2'041'000});
  m.kernel(1, product, {2'042'000, 3'042'000}).kernel(1, "rms_norm_kernel", {3'043'000, 3'053'000});
  m.call("cudaDeviceSynchronize", {40'000, 3'060'000}, 2);
  return m;
}

class Model {
 public:
  explicit Model(const TraceMaker& m) : trace_(m.load()) {
    const trace::Steps steps = trace::find_steps(trace_);
    Result<graph::Graph> graph = graph::GraphBuilder(trace_, steps).build(0);
    if (!graph) throw std::runtime_error(graph.error().to_string());
    Result<whatif::Model> made = analysis::make_model(trace_, steps.steps[0], *graph, graph->traced, std::nullopt);
    if (!made) throw std::runtime_error(made.error().to_string());
    model_ = std::move(*made);
  }
  [[nodiscard]] whatif::Prediction ask(const char* use) const {
    return whatif::predict(model_, {*whatif::parse_use(use)}, std::nullopt);
  }
  const whatif::Model& operator*() const { return model_; }

 private:
  trace::Trace trace_;
  whatif::Model model_;
};

TEST(Decode, WeightsAreReadWhateverTheBatch) {
  const Model m(decode_step("step[DECODE bs=32]"));
  const double all = 3.01, weights = 2, attention = 1;
  const double one = static_cast<double>(m.ask("batch:x=0.03125").gpu_time) / 1e6;
  EXPECT_NEAR(one, weights + attention / 32, 0.02);
  const double twice = static_cast<double>(m.ask("batch:x=2").gpu_time) / 1e6;
  EXPECT_NEAR(twice, weights + 2 * attention, 0.05);
  EXPECT_GT(all, one);
  // With enough sequences multiplying takes longer than reading: they double from there on.
  const double many = static_cast<double>(m.ask("batch:x=64").gpu_time) / 1e6;
  EXPECT_GT(many, 64 * attention + 2 * weights);
}

// Eager products with shapes: no batch makes them faster than reading their weights once.
TEST(Decode, ProductsWithShapesReadTheirWeights) {
  constexpr double kWeights = 4096.0 * 12288 * 2;  // bytes
  TraceMaker m;
  m.properties = kH200;
  m.range("step[DECODE bs=64]", 0, 1'000'000);
  for (int i = 0; i < 10; ++i) {
    const Ns at = 10'000 + i * 50'000;
    m.event("cpu_op", "aten::mm", 1, 1, {at, at + 20'000},
            R"("Input Dims":[[64,4096],[4096,12288]],"Input type":["c10::BFloat16","c10::BFloat16"])");
    m.launch(i + 1, {at + 5'000, at + 10'000}, "nvjet_hsh_64x32_bf16", {at + 12'000, at + 42'000});
  }
  m.call("cudaDeviceSynchronize", {520'000, 620'000}, 99);
  const Model step(m);
  const double reading = 10 * kWeights / (*step).device.bandwidth_gbs;  // ns
  for (const char* x : {"batch:x=0.5", "batch:x=0.25", "batch:x=0.015625"}) {
    const auto time = static_cast<double>(step.ask(x).gpu_time);
    EXPECT_GE(time, 0.999 * reading) << x;
    EXPECT_LE(time, 1.001 * 300'000) << x;
  }
}

TEST(Decode, WhatIsNotKnownWidensTheBand) {
  const Model known(decode_step("step[DECODE bs=32]"));
  const Model unknown(decode_step("decode_step"));
  const auto width = [](const whatif::Prediction& p) {
    return static_cast<double>(p.high) / static_cast<double>(p.low);
  };
  EXPECT_GT(width(unknown.ask("batch:x=4")), 1.3 * width(known.ask("batch:x=4")));
  EXPECT_THAT(unknown.ask("batch:x=4").not_modelled, testing::Contains(HasSubstr("how many sequences")));
  const Model experts(decode_step("step[DECODE bs=32]", "_matmul_ogs_bf16xmxfp4"));
  const whatif::Prediction fewer = experts.ask("batch:x=0.25");
  EXPECT_THAT(fewer.not_modelled, testing::Contains(HasSubstr("experts")));
  EXPECT_GT(static_cast<double>(fewer.gpu_time), 0.25 * 2e6);
  EXPECT_LT(static_cast<double>(fewer.gpu_time), 2.5e6);
}

TEST(Fitting, NothingOfTrainingIsProposedForInference) {
  const Model decode(decode_step("step[DECODE bs=32]"));
  const Model evaluation(named("ProfilerStep#1"));
  for (const whatif::WhatIf& w : whatif::catalogue()) {
    for (const Model* m : {&decode, &evaluation}) {
      if (!whatif::unfit_for(w, **m).empty()) continue;
      for (const std::string& use : w.advise) {
        const std::string code = whatif::code_of(*whatif::parse_use(use), **m);
        for (const char* word : {"loss", "Scaler", "optim", "backward", "train_step"}) {
          EXPECT_THAT(code, Not(HasSubstr(word))) << use;
        }
      }
    }
  }
  const whatif::WhatIf& no_sync = **whatif::find_whatif("no-sync");
  EXPECT_THAT(whatif::unfit_for(no_sync, *decode), HasSubstr("decode"));
  EXPECT_THAT(whatif::unfit_for(no_sync, *evaluation), IsEmpty());
  EXPECT_THAT(whatif::code_of(*whatif::parse_use("no-sync"), *evaluation), Not(HasSubstr("loss")));
}

TEST(Fitting, AScriptForInferenceDoesNotTrain) {
  search::Optimized found;
  for (const char* use : {"amp", "cuda-graph", "no-sync"}) {
    search::OptimizedPart part;
    part.text = use;
    found.parts.push_back(part);
    found.best.whatifs.emplace_back(use);
  }
  const report::OptimizeReport r{{}, found};
  const std::string script = report::script_for({StepKind::kEvaluation}, r);
  EXPECT_THAT(script, HasSubstr("torch.inference_mode()"));
  EXPECT_THAT(script, HasSubstr("torch.autocast"));
  EXPECT_THAT(script, HasSubstr("CapturedForward(model)"));
  for (const char* word : {"loss", "Scaler", "optimizer", "backward"}) EXPECT_THAT(script, Not(HasSubstr(word)));
  EXPECT_THAT(report::script_for({StepKind::kTraining}, r), HasSubstr("backward"));
}

}  // namespace
}  // namespace foretrace
