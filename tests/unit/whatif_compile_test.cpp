// What torch.compile does to a step, one mechanism after the other, on real steps: what is fused and what these kernels move,
// what happens to attention, products and convolutions, what is kept, and what the CPU does.

#include <gmock/gmock.h>

#include <map>
#include <memory>

#include "foretrace/whatif/whatif.hpp"
#include "measured_step.hpp"
#include "whatif/predict/predictor.hpp"
#include "whatif/rewrite/fusion.hpp"

namespace foretrace::whatif {

namespace {

using test::predicted;
using testing::HasSubstr;

const Model& step_of(const std::string& name) { return test::measured_step(name).model; }
const Model& bert() { return step_of("h200-clean/bert_base-today.base"); }
const Model& gpt2() { return step_of("h200-clean/gpt2-today.base"); }
const Model& vit() { return step_of("h200-lengths/vit_b_16-today.base"); }
const Model& mlp() { return step_of("h200-clean/mlp.base"); }
const Model& resnet() { return step_of("h200-clean/resnet50.base"); }
const Model& images() { return step_of("h200-clean/resnet50-image.base"); }

struct Planned {
  std::vector<Row> rows;
  std::shared_ptr<const Dataflow> flow;
  FusionPlan plan;
  explicit Planned(const Model& m) {
    const Draft draft(m.graph, m.trace, m.chains);
    rows = rows_of(m, draft);
    flow = shared_flow(m);
    plan = plan_fusion(m, rows, *flow, std::vector<std::uint32_t>(rows.size(), 0));
  }
  [[nodiscard]] std::string operations(const Fused& f) const {
    std::string text;
    for (const std::uint32_t u : f.units) text += std::string(flow->units[u].name.substr(6)) + " ";
    return text;
  }
  [[nodiscard]] std::vector<const Fused*> made_of(const std::string& text) const {
    std::vector<const Fused*> found;
    for (const Fused& f : plan.fused) {
      if (operations(f) == text) found.push_back(&f);
    }
    return found;
  }
};

/// GPU time of the tasks in whose name this is found.
double gpu_ms(const graph::Graph& g, std::string_view name) {
  double ns = 0;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t]) && g.task_name(t).find(name) != std::string_view::npos)
      ns += static_cast<double>(g.cost[t]);
  }
  return ns / 1e6;
}

TEST(GeneratedKernels, TakeTheirBytesOrTheirArithmetic) {
  const hardware::Device& h200 = bert().device;
  const Generated copy{.bytes = 140.6e6, .copy = true};  // BERT's table of words from FP32 to BF16: 44 us
  EXPECT_NEAR(time_of(copy, h200), 44e3, 12e3);
  const Generated gelu{.bytes = 50.3e6, .slow = 12.6e6};  // its GELU: 26.6 us
  EXPECT_NEAR(time_of(gelu, h200), 26.6e3, 5e3);
  EXPECT_LT(time_of({.bytes = 50.3e6}, h200), time_of(gelu, h200));
  const Generated drops{.bytes = 47e6, .random = 3.1e6};  // dropout, residual sum and layer norm: 27 us
  EXPECT_NEAR(time_of(drops, h200), 27e3, 6e3);
  const Generated sums{.bytes = 47e6, .columns = 40e6, .finishing = 2};
  EXPECT_EQ(sums.kernels(), 4U);
  EXPECT_GT(time_of(sums, h200), time_of({.bytes = 47e6}, h200) + 10e3);
  hardware::Device slower = h200;
  slower.bandwidth_gbs /= 2;
  EXPECT_GT(time_of(copy, slower), 1.8 * time_of(copy, h200));
}

TEST(Fusion, ResidualSumsAndNormsRunTogetherAndEndAtProducts) {
  const Planned p(bert());
  // Two in each of 12 blocks; nothing of a block's first runs with its second, although the residual joins them.
  EXPECT_EQ(p.made_of("dropout add layer_norm ").size(), 24U);
  EXPECT_EQ(p.made_of("gelu ").size(), 12U);
}

TEST(Fusion, AKernelMovesWhatOthersGiveAndTake) {
  const Planned p(bert());
  const double elements = 32 * 128 * 768;
  for (const Fused* f : p.made_of("dropout add layer_norm ")) {
    // Reads a product (2 bytes) and the residual (4), writes for products (2) and the residual (4), keeps the mask (1); what
    // was normalised (4) where nobody else wants it.
    EXPECT_GE(f->forward.bytes, 13 * elements);
    EXPECT_LE(f->forward.bytes, 17.5 * elements);
    EXPECT_EQ(f->forward.random, elements);
    // Sums for the norm's weight and bias are a kernel that reads all of it again, and two that finish them.
    EXPECT_GT(f->backward.columns, 0);
    EXPECT_EQ(f->backward.finishing, 2U);
  }
}

TEST(Fusion, AnActivationMadeOfPartsReadsItsProductAlone) {
  // GPT-2's GELU of eight operations: 12.6 million elements read and written in half precision, 50 MB.
  const Planned p(gpt2());
  std::size_t found = 0;
  for (const Fused& f : p.plan.fused) {
    if (p.operations(f).find("tanh") == std::string::npos) continue;
    ++found;
    EXPECT_NEAR(f.forward.bytes, 50.3e6, 26e6);
  }
  EXPECT_EQ(found, 12U);
}

TEST(Fusion, CastsOfActivationsGoAndThoseOfWeightsStay) {
  const Planned p(bert());
  std::size_t weights = 0, sums = 0;
  for (const auto& [row, kernel] : p.plan.alone) {
    const work::Work& w = bert().works[p.rows[row].work];
    if (p.rows[row].phase == Phase::kForward)
      weights += w.family == work::Family::kCopy ? 1U : 0U;
    else
      sums += w.family == work::Family::kReduction ? 1U : 0U;
  }
  EXPECT_NEAR(static_cast<double>(weights), 2 * 74, 3) << "a weight and a bias for each linear layer";
  EXPECT_NEAR(static_cast<double>(sums), 74, 2) << "a sum for each bias";
}

TEST(Fusion, BatchNormReadsOnceForItsStatisticsAndOnceToNormalise) {
  const Planned p(images());
  const std::vector<const Fused*> first = p.made_of("batch_norm relu_ ");
  ASSERT_GT(first.size(), 30U);
  for (const Fused* f : first) {
    EXPECT_NEAR(f->forward.statistics, f->forward.bytes / 2, 0.02 * f->forward.bytes);
    EXPECT_GT(f->backward.columns, 0);
  }
}

TEST(Fusion, TheLossStaysOutside) {
  const Planned p(gpt2());
  for (const Fused& f : p.plan.fused) {
    EXPECT_THAT(p.operations(f), testing::Not(HasSubstr("loss")));
    EXPECT_THAT(p.operations(f), testing::Not(HasSubstr("log_softmax")));
  }
  EXPECT_TRUE(computes_loss("aten::nll_loss_forward"));
  EXPECT_FALSE(computes_loss("aten::_softmax"));
}

TEST(Compile, MasksOfTransformersChangeAttention) {
  // Causal attention loses its short cut (GPT-2: 0.45 and 0.65 ms became 0.75 and 1.10), one without a mask becomes products in
  // FP32 and kernels around them (BERT: 0.70 ms became 2.2). ViT's has no mask, compiled or not.
  const auto change = [](const Model& m) {
    return gpu_ms(predicted(m, {"compile"}).graph, "sdpa") / gpu_ms(m.graph, "sdpa");
  };
  EXPECT_NEAR(change(gpt2()), 1.68, 0.25);
  EXPECT_NEAR(change(bert()), 3.4, 1.0);
  EXPECT_NEAR(change(vit()), 1.0, 0.01);
  // Masks are made where the model begins: regions do not see that.
  const Prediction regions = predicted(bert(), {"compile:layers=bert.encoder.layer.*"});
  EXPECT_NEAR(gpu_ms(regions.graph, "sdpa") / gpu_ms(bert().graph, "sdpa"), 1.0, 0.01);
}

TEST(Compile, ProductsOfOddSizesArePadded) {
  // 50,257 words: 7.9 ms became 1.2, and 0.4 for copies.
  const double before = gpu_ms(gpt2().graph, "cutlass_75");
  ASSERT_GT(before, 6);
  const double after = gpu_ms(predicted(gpt2(), {"compile"}).graph, "cutlass_75");
  EXPECT_LT(after, 0.35 * before);
  EXPECT_GT(after, 0.12 * before);
}

TEST(Compile, ConvolutionsMoveTheirChannels) {
  const Result<Model> compiled = apply_uses(resnet(), {parse_use("compile").value()});
  ASSERT_TRUE(compiled) << compiled.error().to_string();
  std::size_t planes = 0, innermost = 0;
  for (std::uint32_t t = 0; t < compiled->graph.size(); ++t) {
    const std::uint32_t row = compiled->works.row_of(t);
    if (row == kNone || !is_conv(compiled->works[row])) continue;
    ++(channels_last(compiled->works[row]) ? innermost : planes);
  }
  EXPECT_EQ(planes, 0U);
  EXPECT_GT(innermost, 150U);
}

TEST(Compile, KeepsWhatProductsReadAndDropsWhatLiesBetween) {
  // 11.1 GB became 9.3 for GPT-2 in FP32, 8.9 became 7.9 for Llama.
  for (const auto& [path, least, most] :
       {std::tuple{"h200-clean/gpt2.base", 0.80, 0.87}, {"h200-clean/llama_gqa-today.base", 0.85, 0.93}}) {
    const Model& m = step_of(path);
    const Prediction p = predicted(m, {"compile"});
    ASSERT_TRUE(p.peak_bytes.has_value());
    const double share = static_cast<double>(*p.peak_bytes) / static_cast<double>(m.memory->peak_bytes);
    EXPECT_GE(share, least) << path;
    EXPECT_LE(share, most) << path;
  }
}

TEST(Compile, TheCpuLaunchesFromGeneratedCode) {
  // Bound by the CPU: Python of many modules goes, launches stay. A small network pays for guards more than it saves.
  EXPECT_GT(predicted(bert(), {"compile"}).speedup, 1.12);
  EXPECT_LT(predicted(mlp(), {"compile"}).speedup, 0.95);
  const Ns compiled = predicted(bert(), {"compile"}).step;
  const Prediction graphed = predicted(bert(), {"compile:mode=reduce-overhead"});
  EXPECT_LT(graphed.step, compiled);
  EXPECT_THAT(graphed.not_modelled, testing::Contains(HasSubstr("not validated")));
}

TEST(Compile, IsDeclinedWhereItIsThereOrNotKnown) {
  EXPECT_THAT(predicted(bert(), {"compile:mode=max-autotune"}).declined, HasSubstr("measured"));
  EXPECT_THAT(predicted(bert(), {"compile", "compile"}).declined, HasSubstr("already"));
  EXPECT_THAT(predicted(step_of("h200-clean/gpt2-compiled.base"), {"compile"}).declined, HasSubstr("already"));
}

TEST(Compile, StacksWithWhatComesBefore) {
  const Model& m = step_of("h200-clean/gpt2.base");
  const Prediction half = predicted(m, {"amp:dtype=bf16", "flash-attention"});
  const Prediction all = predicted(m, {"amp:dtype=bf16", "flash-attention", "compile"});
  ASSERT_EQ(all.declined, "");
  EXPECT_LT(all.gpu_time, half.gpu_time);
  // Of autocast's casts those of weights and of the logits are left.
  EXPECT_LT(gpu_ms(all.graph, "cast"), 0.7 * gpu_ms(half.graph, "cast"));
  const Prediction again = predicted(bert(), {"checkpoint", "compile"});
  ASSERT_EQ(again.declined, "");
  EXPECT_GT(again.gpu_time, predicted(bert(), {"compile"}).gpu_time) << "the forward pass runs twice";
  EXPECT_EQ(predicted(bert(), {"compile", "ddp:workers=4"}).declined, "");
}

}  // namespace

}  // namespace foretrace::whatif
