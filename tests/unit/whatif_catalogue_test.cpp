// What-ifs of the catalogue on real steps: what they change, and what they decline.

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "analysis/make_model.hpp"
#include "foretrace/report/report.hpp"
#include "measured_step.hpp"
#include "trace_maker.hpp"
#include "whatif/dataflow/saved_tensors.hpp"

namespace foretrace::whatif {

namespace {

using testing::HasSubstr;

using test::step_at;

std::string example() { return "examples/resnet50-h200.json.gz"; }
std::string clean(const std::string& name) { return "data/h200-clean/" + name + ".json.gz"; }
std::string more(const std::string& name) { return "data/h200-more/" + name + ".json.gz"; }

Prediction predicted(const std::string& path, const std::vector<std::string>& uses) {
  return test::predicted(step_at(path).model, uses);
}

TEST(Catalogue, EveryEntryDescribesItself) {
  for (const WhatIf& w : catalogue()) {
    EXPECT_FALSE(w.about.empty()) << w.name;
    EXPECT_FALSE(w.assumes.empty()) << w.name;
    EXPECT_FALSE(w.source.empty()) << w.name;
    EXPECT_TRUE(w.apply) << w.name;
    for (const std::string& use : w.advise) EXPECT_TRUE(parse_use(use)) << use;
  }
}

TEST(Catalogue, EveryEntryPredictsOrSaysWhyNot) {
  for (const WhatIf& w : catalogue()) {
    std::string text = w.name;
    for (const Parameter& p : w.parameters) {
      if (!p.required) continue;
      text += (text == w.name ? ":" : ",") + p.name + "=" + (p.type == ParameterType::kNumber ? "2" : "*");
    }
    if (w.name == "gpu") text = "gpu:to=A100-SXM4-80GB";
    const Result<Use> use = parse_use(text);
    if (!use) continue;  // parameters only its own tests know
    for (const std::string& path : {example(), more("bert_l8.base")}) {
      const Prediction p = predict(step_at(path).model, {*use}, std::nullopt);
      if (!p.declined.empty()) {
        EXPECT_THAT(p.declined, testing::StartsWith(w.name + ": "));
        EXPECT_THAT(std::string(p.reason()), testing::Not(testing::StartsWith(w.name + ": "))) << "named twice";
        EXPECT_THAT(p.declined, testing::Not(HasSubstr("not sound"))) << path;
        continue;
      }
      EXPECT_GT(p.step, 0) << text;
      EXPECT_LE(p.low, p.step) << text;
      EXPECT_GE(p.high, p.step) << text;
      EXPECT_TRUE(w.validated || !p.not_modelled.empty()) << text;
    }
  }
}

TEST(Catalogue, ValidatedSaysOnHowMuch) {
  for (const WhatIf& w : catalogue()) {
    // What is so by definition claims to be right; everything else that does has rows that show it.
    if (!w.definition.empty()) {
      EXPECT_TRUE(w.validated) << w.name;
    } else if (w.validated) {
      EXPECT_GT(w.evidence.rows, 0) << w.name;
    }
    EXPECT_LE(w.evidence.models, w.evidence.rows) << w.name;
    EXPECT_EQ(w.evidence.models > 0, w.evidence.rows > 0) << w.name;
  }
  const Evidence amp = (*find_whatif("amp"))->evidence;
  const Evidence channels_last = (*find_whatif("channels-last"))->evidence;
  EXPECT_GT(amp.rows, channels_last.rows);
  const Prediction both = predicted(example(), {"amp", "channels-last"});
  EXPECT_EQ(both.evidence.rows, channels_last.rows);
  EXPECT_EQ(both.evidence.models, channels_last.models);
  EXPECT_EQ(predicted(example(), {"cpu:x=0.5"}).evidence.rows, 0);
}

TEST(Catalogue, WhatDoesNotApplyIsDeclinedWithTheReason) {
  const auto reason = [](const std::string& path, const std::vector<std::string>& uses) {
    return predicted(path, uses).declined;
  };
  EXPECT_THAT(reason(example(), {"flash-attention"}), HasSubstr("no attention"));
  EXPECT_THAT(reason(more("bert_l8.base"), {"channels-last"}), HasSubstr("no convolution"));
  EXPECT_THAT(reason(more("bert_l8.base"), {"batchnorm"}), HasSubstr("no batch norm"));
  EXPECT_THAT(reason(more("bert_l8.amp"), {"amp"}), HasSubstr("already"));
  EXPECT_THAT(reason(example(), {"amp", "amp"}), HasSubstr("already"));
  EXPECT_THAT(reason(more("llama_w4.compile"), {"compile"}), HasSubstr("already"));
  EXPECT_THAT(reason(more("llama_w4.base"), {"compile", "compile"}), HasSubstr("compile: "));
  EXPECT_THAT(reason(clean("gpt2.base"), {"substitute"}), HasSubstr("no parallel layers"));
  EXPECT_THAT(reason(clean("gpt2.base"), {"compress-activations:code=lossless"}), HasSubstr("no ReLU"));
  EXPECT_THAT(reason(example(), {"dataloader"}), HasSubstr("no DataLoader"));
  EXPECT_THAT(reason(example(), {"batch:x=2", "offload"}), HasSubstr("in front of it"));
  // In a stack, the first that does not apply is named.
  EXPECT_THAT(reason(example(), {"fused-optimizer", "flash-attention"}), testing::StartsWith("flash-attention: "));
}

// Changes that have nothing to do with each other give the same step in either order.
TEST(Catalogue, OrderDoesNotMatterWhereChangesAreApart) {
  const std::vector<std::string> pairs[] = {{"gpu:to=A100-SXM4-80GB", "checkpoint"},
                                            {"cpu:x=2", "compile"},
                                            {"cpu:x=2", "amp"},
                                            {"batch:x=2", "compile"},
                                            {"tf32", "fused-optimizer"},
                                            {"no-sync", "batch:x=2"}};
  for (const std::vector<std::string>& pair : pairs) {
    const Prediction one = predicted(example(), pair);
    const Prediction other = predicted(example(), {pair[1], pair[0]});
    ASSERT_EQ(one.declined + other.declined, "") << pair[0] << " + " << pair[1];
    EXPECT_NEAR(static_cast<double>(one.step) / static_cast<double>(other.step), 1, 0.025)
        << pair[0] << " + " << pair[1];
    EXPECT_NEAR(static_cast<double>(*one.peak_bytes) / static_cast<double>(*other.peak_bytes), 1, 0.025)
        << pair[0] << " + " << pair[1];
  }
  EXPECT_THAT(predicted(example(), {"cuda-graph", "checkpoint"}).declined, HasSubstr("in front of it"));
}

// What a checkpoint computes again is not kept, so there is nothing to move or to compress, whether it was recorded or is asked for.
TEST(Catalogue, NothingIsKeptOfBlocksThatAreComputedAgain) {
  const Prediction usual = predicted(clean("gpt2.base"), {"offload"});
  const Prediction again = predicted(clean("gpt2.ckpt"), {"offload"});
  EXPECT_GT(usual.gpu_time, 350'000'000);
  EXPECT_LT(again.gpu_time, 200'000'000);
  EXPECT_THAT(predicted(example(), {"checkpoint", "offload"}).declined,
              HasSubstr("checkpoint computes again is not kept"));
  EXPECT_THAT(predicted(example(), {"compress-activations", "checkpoint"}).declined, HasSubstr("do not add up"));
}

// save_on_cpu on this model and host copied 481 tensors in a step of 32 images; the loss was the 482nd copy. Of a step of 64
// images the activations are twice as large, the weights and statistics the same.
TEST(SavedTensors, AreThoseAutogradKeeps) {
  const Model& m = step_at(example()).model;
  const Draft draft(m.graph, m.trace, m.chains);
  const std::vector<SavedTensor> saved = saved_tensors(m, draft);
  EXPECT_EQ(saved.size(), 481U);
  std::int64_t weights = 0;
  std::int64_t data = 0;
  for (const SavedTensor& s : saved) (s.parameter ? weights : data) += s.bytes;
  const double of_32_images = 4.274493192e9 - 4;
  EXPECT_NEAR(static_cast<double>(data) / 2 + static_cast<double>(weights), of_32_images, 0.005 * of_32_images);
}

TEST(Offload, IsASlowDownThatSavesMemory) {
  const Prediction p = predicted(example(), {"offload"});
  ASSERT_TRUE(p.declined.empty()) << p.declined;
  EXPECT_LT(p.speedup, 0.25);
  EXPECT_LT(*p.peak_bytes, *step_at(example()).figures.peak_bytes / 2);
  const Prediction prefetched = predicted(example(), {"offload:prefetch=1"});
  EXPECT_LT(prefetched.step, p.step);
  EXPECT_EQ(prefetched.graph.lanes.size(), step_at(example()).model.graph.lanes.size() + 2);
}

TEST(CompressActivations, KeepsHalf) {
  const Prediction p = predicted(more("bert_l8.base"), {"compress-activations"});
  ASSERT_TRUE(p.declined.empty()) << p.declined;
  EXPECT_LT(p.speedup, 1);
  EXPECT_LT(*p.peak_bytes, *step_at(more("bert_l8.base")).figures.peak_bytes);
}

TEST(Compile, LaunchesLessAndMovesLess) {
  const Model& before = step_at(more("llama_w4.base")).model;
  const Prediction p = predicted(more("llama_w4.base"), {"compile"});
  ASSERT_TRUE(p.declined.empty()) << p.declined;
  EXPECT_LT(p.graph.size(), before.graph.size());
  EXPECT_GT(p.speedup, 1.02);
}

TEST(Substitute, JoinsQueryKeyAndValue) {
  const Prediction p = predicted(more("bert_l8.base"), {"substitute"});
  ASSERT_TRUE(p.declined.empty()) << p.declined;
  EXPECT_LE(p.step, step_at(more("bert_l8.base")).figures.unprofiled);
  // Two of three products of each of the 8 blocks are gone, forward and twice backward.
  EXPECT_EQ(p.applied.front().changed > 3 * 2 * 8, true);
}

// The first block of ResNet-50 reads its input with two 1x1 convolutions of one stride; in the others their strides differ.
TEST(Substitute, JoinsConvolutionsOfOneInput) {
  const Prediction p = predicted(example(), {"substitute"});
  ASSERT_TRUE(p.declined.empty()) << p.declined;
  // One convolution and one sum of gradients less; the joined gradient is put together and a part copied for the next layer.
  const double before = static_cast<double>(predicted(example(), {"cpu:x=1"}).gpu_time);
  EXPECT_NE(static_cast<double>(p.gpu_time), before);
  EXPECT_NEAR(static_cast<double>(p.gpu_time) / before, 1, 0.01);
  EXPECT_GT(p.applied.front().changed, 4U);
}

// Half of what ReLUs hand to convolutions is gone, or none of it, or all; what norms keep stays.
TEST(CompressActivations, WithoutLossKeepsWhatIsNotZero) {
  const auto peak = [](const char* zeros) {
    const Prediction p = predicted(example(), {std::string("compress-activations:code=lossless,zeros=") + zeros});
    EXPECT_TRUE(p.declined.empty()) << p.declined;
    return static_cast<double>(p.peak_bytes.value_or(0));
  };
  const double usual = static_cast<double>(*predicted(example(), {"cpu:x=1"}).peak_bytes);
  EXPECT_LT(peak("0.5"), 0.97 * usual);
  EXPECT_LT(peak("0.9"), peak("0.5"));
  EXPECT_LT(peak("0.5"), peak("0.1"));
}

// A step of 30 ms of loading and 10 ms of work.
TEST(DataLoader, AStepIsNoShorterThanItsWorkersNeed) {
  test::TraceMaker m;
  m.step(1, 0, 40'000'000);
  m.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 30'000'000);
  m.op("aten::stack", 1'000, 29'990'000);
  for (int i = 0; i < 40; ++i) {
    const Ns at = 30'000'000 + i * 250'000;
    m.op("aten::mul", at, at + 40'000);
    m.launch(i + 1, {at + 10'000, at + 20'000}, "mul", {at + 30'000, at + 240'000});
  }
  m.call("cudaDeviceSynchronize", {39'990'000, 40'000'000}, 99);
  const trace::Trace trace = m.load();
  const trace::Steps steps = trace::find_steps(trace);
  Result<Graph> graph = graph::GraphBuilder(trace, steps).build(0);
  ASSERT_TRUE(graph);
  Result<Model> model = analysis::make_model(trace, steps.steps[0], *graph, graph->traced, Ns{40'000'000});
  ASSERT_TRUE(model);
  const auto step_with = [&](const char* use) {
    const Prediction p = predict(*model, {*parse_use(use)}, Ns{40'000'000});
    EXPECT_TRUE(p.declined.empty()) << p.declined;
    return static_cast<double>(p.step);
  };
  // What calibration leaves of the measured step moves with it.
  EXPECT_NEAR(step_with("dataloader:workers=1"), 30e6 * 1.4, 2e6);
  EXPECT_NEAR(step_with("dataloader:workers=2"), 30e6 * 1.4 / 2, 1e6);
  EXPECT_NEAR(step_with("dataloader:workers=16"), 10e6, 2e6);
  // A CUDA graph launches; it does not load data.
  EXPECT_GT(step_with("cuda-graph"), 30e6);
}

TEST(Batch, TheLargestThatFitsFits) {
  const Prediction twice = predicted(example(), {"batch:x=2"});
  ASSERT_TRUE(twice.largest_batch.has_value());
  const auto reserved_at = [](double x) {
    return static_cast<double>(predicted(example(), {fmt::format("batch:x={}", x)}).reserved_bytes.value_or(0));
  };
  const double room = step_at(example()).model.device.reported_gb * 1e9 - static_cast<double>(hardware::kDriverBytes);
  EXPECT_LE(reserved_at(*twice.largest_batch), room * 1.001);
  EXPECT_GT(reserved_at(*twice.largest_batch * 1.1), room);
  EXPECT_FALSE(predicted(example(), {"fused-optimizer"}).largest_batch.has_value());
}

TEST(Example, OfThePageAboutAddingOnePredicts) {
  // tests/unit/half_batchnorm.cpp is all it takes: one file, known to everything.
  const Prediction half = predicted(example(), {"half-batchnorm"});
  ASSERT_TRUE(half.declined.empty()) << half.declined;
  EXPECT_GT(half.speedup, 1);
  EXPECT_LT(predicted(example(), {"half-batchnorm:x=0.1"}).step, half.step);
  EXPECT_THAT(predicted(more("bert_l8.base"), {"half-batchnorm"}).declined, HasSubstr("no batch norm"));
}

}  // namespace
}  // namespace foretrace::whatif
