// What autocast, fused attention and checkpointing do to real steps, compared with traces of steps that did it.

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "foretrace/report/report.hpp"
#include "foretrace/trace/load.hpp"
#include "hardware/choice/chooser.hpp"
#include "hardware/cost_models.hpp"
#include "whatif/dataflow/blocks.hpp"
#include "whatif/predict/predictor.hpp"
#include "whatif/rewrite/attentions.hpp"
#include "whatif/rewrite/autocast.hpp"

namespace foretrace::whatif {
namespace {

constexpr const char* kData = FORETRACE_SOURCE_DIR "/data/";

struct Loaded {
  trace::Trace trace;
  analysis::Baseline baseline;
};

std::unique_ptr<Loaded> load(const std::string& file) {
  auto loaded = std::make_unique<Loaded>();
  Result<trace::Trace> trace = trace::load(kData + file);
  EXPECT_TRUE(trace) << file;
  if (!trace) return nullptr;
  loaded->trace = std::move(*trace);
  Result<analysis::Baseline> baseline = analysis::make_baseline(loaded->trace, std::nullopt, std::nullopt);
  EXPECT_TRUE(baseline) << file;
  if (!baseline) return nullptr;
  loaded->baseline = std::move(*baseline);
  return loaded;
}

Prediction predicted(const Loaded& l, const std::string& use) {
  Result<Use> parsed = parse_use(use);
  EXPECT_TRUE(parsed);
  return predict(l.baseline.model, {*parsed}, std::nullopt);
}

/// Copies between FP32 and half in the forward pass of a recorded step.
std::size_t recorded_casts(const Loaded& l) {
  const Dataflow flow = forward_flow(l.baseline.model);
  const trace::Trace& t = l.trace;
  std::size_t casts = 0;
  const Graph& g = l.baseline.model.graph;
  for (std::uint32_t task = 0; task < g.size(); ++task) {
    if (!graph::is_gpu(g.kind[task]) || !g.op[task].valid() || g.phase[task] != Phase::kForward) continue;
    const std::uint32_t e = g.op[task].value;
    if (t.name(e) != "aten::copy_" || flow.unit_of(e) == kNone) continue;
    const work::OpView view(t, t.events.args[e]);
    if (view.tensor(0) && view.tensor(1) && view[0].type != view[1].type &&
        (view[0].type == "c10::Half" || view[1].type == "c10::Half"))
      ++casts;
  }
  return casts;
}

std::size_t foretold_casts(const Loaded& l) {
  std::size_t casts = 0;
  for (const AutocastUnit& u : autocast(forward_flow(l.baseline.model)).units) casts += u.casts.size();
  return casts;
}

TEST(Autocast, CastsAsManyTensorsAsTheRealStep) {
  for (const std::string model : {"h200-more/llama_w4", "h200-more/bert_l8", "h200-more/vit_b_16", "h200-more/vgg16",
                                  "h200-more/convnext_tiny", "h200-families/unet"}) {
    const auto base = load(model + ".base.json.gz");
    const auto amp = load(model + ".amp.json.gz");
    ASSERT_TRUE(base && amp);
    const auto real = static_cast<double>(recorded_casts(*amp));
    ASSERT_GT(real, 10) << model;
    EXPECT_NEAR(static_cast<double>(foretold_casts(*base)) / real, 1, 0.07) << model;
  }
}

TEST(Autocast, ResidualsStayFp32InTransformersAndGoHalfInConvolutionalNets) {
  const auto bert = load("h200-more/bert_l8.base.json.gz");
  ASSERT_TRUE(bert);
  const Dataflow flow = forward_flow(bert->baseline.model);
  const Autocast cast = autocast(flow);
  std::size_t adds = 0;
  for (std::size_t u = 0; u < flow.units.size(); ++u) {
    if (flow.units[u].name != "aten::add" || !flow.units[u].computes || flow.units[u].inputs.size() != 2) continue;
    if (flow.values[flow.units[u].inputs[0].value].shape != flow.values[flow.units[u].inputs[1].value].shape) continue;
    ++adds;
    EXPECT_NE(cast.units[u].precision, Precision::kHalf);
  }
  EXPECT_GE(adds, 16u);  // two in each of eight layers
}

// Embeddings are FP32; the program brings them to the type of what they are stacked with.
TEST(Autocast, ConversionsInFrontOfAConcatenationFollowTheOtherParts) {
  const auto dlrm = load("h200-families/dlrm.base.json.gz");
  ASSERT_TRUE(dlrm);
  const Dataflow flow = forward_flow(dlrm->baseline.model);
  const Autocast cast = autocast(flow);
  std::size_t joined = 0;
  std::size_t narrowed = 0;
  for (std::size_t u = 0; u < flow.units.size(); ++u) {
    if (flow.units[u].name == "aten::stack") {
      EXPECT_EQ(cast.units[u].precision, Precision::kHalf);
      joined += flow.units[u].inputs.size();
    }
    if (flow.units[u].name == "aten::to" && !flow.units[u].computes && !cast.units[u].casts.empty())
      narrowed += cast.units[u].casts.front().to_float ? 0 : 1;
  }
  EXPECT_EQ(joined, 27U);
  EXPECT_EQ(narrowed, 26U);
}

TEST(Autocast, PeakMemoryAsRecorded) {
  for (const std::string model :
       {"h200-more/llama_w4", "h200-more/bert_l8", "h200-more/vit_b_16", "h200-more/vgg16", "h200-more/convnext_tiny",
        "h200-families/unet", "h200-families/lstm_lm", "h200-families/dlrm"}) {
    const auto base = load(model + ".base.json.gz");
    const auto amp = load(model + ".amp.json.gz");
    ASSERT_TRUE(base && amp);
    const Prediction p = predicted(*base, "amp");
    ASSERT_TRUE(p.peak_bytes.has_value()) << model << ": " << p.declined;
    ASSERT_TRUE(amp->baseline.figures.peak_bytes.has_value());
    EXPECT_NEAR(static_cast<double>(*p.peak_bytes) / static_cast<double>(*amp->baseline.figures.peak_bytes), 1, 0.05)
        << model;
  }
}

// GPT-2 draws a triangle and adds it to the scores; BERT adds a mask of ones.
TEST(FlashAttention, CausalMasksAreKnownByTheirTriangle) {
  for (const auto& [file, causal] : {std::pair("h200-heldout/gpt2_m8.base.json.gz", true),
                                     std::pair("h200-heldout/bert_large8.base.json.gz", false)}) {
    const auto loaded = load(file);
    ASSERT_TRUE(loaded);
    const Model& m = loaded->baseline.model;
    const Draft draft(m.graph, m.trace, m.chains);
    const std::vector<Row> rows = rows_of(m, draft);
    const std::vector<Attention> all = find_attentions(m, rows, forward_flow(m));
    ASSERT_EQ(all.size(), 8U) << file;
    for (const Attention& a : all) EXPECT_EQ(a.causal, causal) << file;
  }
}

// T5 adds a bias of positions that it learns to the scores of every self-attention: PyTorch then computes them from their parts, in FP32, and only
// those across run in one kernel (eight and four in data/h200-lengths/t5_4x4-today, which was recorded so).
TEST(FlashAttention, WhatIsLearnedKeepsAttentionInParts) {
  const auto l = load("h200-clean/t5_4x4@2.base.json.gz");
  ASSERT_TRUE(l);
  const Model& m = l->baseline.model;
  const Draft draft(m.graph, m.trace, m.chains);
  const std::vector<Row> rows = rows_of(m, draft);
  const std::vector<Attention> all = find_attentions(m, rows, forward_flow(m));
  ASSERT_EQ(all.size(), 12U);
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const Attention& a) { return a.learned_bias; }), 8);
  const Prediction p = predicted(*l, "flash-attention");
  ASSERT_TRUE(p.declined.empty()) << p.declined;
  std::size_t fused = 0;
  for (std::uint32_t t = 0; t < p.graph.size(); ++t) fused += p.graph.task_name(t) == "fused attention" ? 1 : 0;
  EXPECT_EQ(fused, 16U);  // one forward, three backward
}

TEST(FlashAttention, EveryShapeOfOneStepIsFound) {
  const auto l = load("h200-families/nmt_3x3.base.json.gz");
  ASSERT_TRUE(l);
  const Prediction p = predicted(*l, "flash-attention");
  ASSERT_TRUE(p.declined.empty()) << p.declined;
  std::map<Phase, std::size_t> fused;
  for (std::uint32_t t = 0; t < p.graph.size(); ++t) {
    if (p.graph.task_name(t) == "fused attention") ++fused[p.graph.phase[t]];
  }
  // Three of the encoder, three causal ones and three across in the decoder; three kernels each backward.
  EXPECT_EQ(fused[Phase::kForward], 9u);
  EXPECT_EQ(fused[Phase::kBackward], 27u);
}

TEST(Checkpoint, BlocksByNumberAndByNumberedName) {
  EXPECT_EQ(block_of("encoder.layer.3.attention.query"), "encoder.layer.3");
  EXPECT_EQ(block_of("encoder.layers.encoder_layer_3.mlp.0"), "encoder.layers.encoder_layer_3");
  EXPECT_EQ(block_of("layer1.0.conv1"), "layer1.0");
  EXPECT_EQ(block_of("features.denseblock1.denselayer2.conv1"), "features.denseblock1.denselayer2");
  EXPECT_EQ(block_of("features.2.0.block.1.0"), "features.2.0");
  EXPECT_EQ(block_of("features.2.0"), "features.2");
  EXPECT_EQ(block_of("classifier.0"), "");
  EXPECT_EQ(block_of("conv1"), "");
  EXPECT_EQ(block_of(""), "");
}

TEST(Blocks, EntriesOutsideStagesAreNone) {
  const auto left = [](const std::vector<std::string>& names) {
    std::vector<BlockOfLayers> blocks;
    for (const std::string& name : names) blocks.push_back({name, {}, kNone});
    drop_entries_outside_stages(blocks);
    std::string out;
    for (const BlockOfLayers& b : blocks) out += b.name + " ";
    return out;
  };
  // EfficientNet: a stem and a head in the list of stages.
  EXPECT_EQ(left({"features.0", "features.1.0", "features.2.0", "features.2.1", "features.8"}),
            "features.1.0 features.2.0 features.2.1 ");
  // Lists of blocks, another network's stages, and blocks that are entries of no list stay.
  EXPECT_EQ(left({"encoder.layer.0", "encoder.layer.1", "features.2.0"}),
            "encoder.layer.0 encoder.layer.1 features.2.0 ");
  EXPECT_EQ(left({"layer1.0", "layer1.1", "layer2.0"}), "layer1.0 layer1.1 layer2.0 ");
  EXPECT_EQ(left({"blocks.encoder_layer_3", ""}), "blocks.encoder_layer_3  ");
}

TEST(Checkpoint, StopsWhereNothingMoreIsNeeded) {
  // A block of ViT ends with a product and an addition, which keep their inputs alone; one of BERT with a norm.
  const auto vit = load("h200-more/vit_b_16.base.json.gz");
  const auto bert = load("h200-more/bert_l8.base.json.gz");
  ASSERT_TRUE(vit && bert);
  const auto again = [](const Loaded& l) {
    const Prediction p = predicted(l, "checkpoint");
    EXPECT_TRUE(p.declined.empty()) << p.declined;
    Ns gpu = 0;
    for (std::uint32_t t = 0; t < l.baseline.model.graph.size(); ++t) {
      if (graph::is_gpu(l.baseline.model.graph.kind[t])) gpu += l.baseline.model.graph.cost[t];
    }
    return static_cast<double>(p.gpu_time) / static_cast<double>(gpu);
  };
  EXPECT_NEAR(again(*vit), 1.232, 0.02);   // measured 322.8 / 262.0
  EXPECT_NEAR(again(*bert), 1.260, 0.02);  // measured 288.8 / 229.3
}

TEST(RecurrentLayers, RunAsOneKernelOnlyWhereTheFrameworkAsksForIt) {
  using work::Dtype;
  work::Recurrent r{.batch = 64, .steps = 50, .inputs = 1024, .hidden = 1024, .layers = 1, .gates = 4};
  work::Work w(work::Family::kRnn);
  w.kind = r;
  w.dtype = Dtype::kFp16;
  EXPECT_TRUE(hardware::persistent_rnn(Dtype::kFp16, r));
  EXPECT_EQ(hardware::kernels_of(w, 156), 7u);
  w.dtype = Dtype::kBf16;
  EXPECT_FALSE(hardware::persistent_rnn(Dtype::kBf16, r));
  EXPECT_EQ(hardware::kernels_of(w, 156), 156u);
  r.batch = 256;
  EXPECT_FALSE(hardware::persistent_rnn(Dtype::kFp16, r));
  r.batch = 64, r.layers = 2;
  EXPECT_FALSE(hardware::persistent_rnn(Dtype::kFp16, r));
}

}  // namespace
}  // namespace foretrace::whatif
