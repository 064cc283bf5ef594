// What a step already has: seen in its trace, declined with that reason, and not seen where it is not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "whatif/dataflow/blocks.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::whatif {
namespace {

using ::testing::HasSubstr;

struct Loaded {
  explicit Loaded(const std::string& path)
      : trace(trace::load(std::string(FORETRACE_SOURCE_DIR) + "/data/" + path + ".json.gz").value()),
        base(analysis::make_baseline(trace, std::nullopt, std::nullopt).value()) {}
  [[nodiscard]] const StepFacts& has() const { return facts_ ? *facts_ : *(facts_ = step_facts(base.model)); }
  [[nodiscard]] Prediction predict(const std::string& use) const {
    return whatif::predict(base.model, {parse_use(use).value()}, std::nullopt);
  }
  trace::Trace trace;
  analysis::Baseline base;

 private:
  mutable std::shared_ptr<const StepFacts> facts_;
};

TEST(AlreadyThere, PlainStepHasNothing) {
  const Loaded plain("h200-clean/bert_base@4.base");
  const StepFacts& has = plain.has();
  EXPECT_FALSE(has.compiled || has.half_products || has.tf32_products || has.tf32_convolutions || has.channels_last);
  EXPECT_FALSE(has.fused_attention || has.foreach_update || has.fused_update || has.recomputes || has.offloads);
  EXPECT_FALSE(has.graphed);
  EXPECT_EQ(has.passes, 1U);
  EXPECT_EQ(has.workers, 1U);
  for (const char* const use : {"amp", "tf32", "fused-optimizer", "checkpoint", "cuda-graph", "accumulate:n=2"}) {
    EXPECT_THAT(plain.predict(use).declined, testing::Not(HasSubstr("already"))) << use;
  }
}

TEST(AlreadyThere, TodaysStep) {
  const Loaded today("h200-clean/gpt2-today.base");
  EXPECT_TRUE(today.has().half_products && today.has().fused_attention && today.has().fused_update);
  EXPECT_FALSE(today.has().recomputes || today.has().compiled || today.has().graphed);
  EXPECT_THAT(today.predict("fused-optimizer").declined, HasSubstr("already runs a fused update"));
  EXPECT_THAT(today.predict("foreach-optimizer").declined, HasSubstr("already runs a fused update"));
  EXPECT_THAT(today.predict("amp").declined, HasSubstr("already runs matrix products in half precision"));
  EXPECT_THAT(today.predict("flash-attention").declined,
              HasSubstr("already is a call of scaled_dot_product_attention"));
  for (const char* const use : {"batch:x=2", "accumulate:n=2", "checkpoint", "cuda-graph"})
    EXPECT_EQ(today.predict(use).declined, "") << use;
}

TEST(AlreadyThere, CheckpointedStepNamesWhatItRunsAgain) {
  const Loaded again("h200-clean/resnet50-image.ckpt");
  EXPECT_TRUE(again.has().recomputes && again.has().channels_last);
  EXPECT_TRUE(recomputes(again.has(), "layer1.0"));
  EXPECT_FALSE(recomputes(again.has(), "fc"));
  EXPECT_THAT(again.predict("checkpoint").declined, HasSubstr("already runs its blocks again"));
  EXPECT_THAT(again.predict("checkpoint:layers=layer1.0").declined, HasSubstr("already runs its blocks again"));
}

TEST(AlreadyThere, GraphedAndCompiledSteps) {
  const Loaded graphed("h200-clean/bert_base-compiled.graph");
  EXPECT_TRUE(graphed.has().graphed && graphed.has().compiled);
  EXPECT_THAT(graphed.predict("cuda-graph").declined, HasSubstr("already runs as a CUDA graph"));
  EXPECT_THAT(graphed.predict("compile").declined, HasSubstr("already runs kernels of torch.compile"));
  const Loaded compiled("h200-clean/gpt2-compiled.base");
  EXPECT_EQ(compiled.predict("cuda-graph").declined, "");
}

TEST(AlreadyThere, SeveralWorkers) {
  const Loaded ddp("h200-ranks/resnet50.mps.ddp@5.w2.r0");
  EXPECT_EQ(ddp.has().workers, 2U);
  EXPECT_THAT(ddp.predict("ddp").declined, HasSubstr("already runs data parallel over 2 workers"));
  EXPECT_THAT(ddp.predict("ddp:workers=2").declined, HasSubstr("already"));
  EXPECT_EQ(ddp.predict("ddp:workers=8").declined, "");
  EXPECT_THAT(ddp.predict("bucket:mb=5").declined, HasSubstr("already reduces its gradients in"));
  EXPECT_EQ(ddp.predict("bucket:mb=25").declined, "");
}

TEST(Blocks, KernelsThatRepeatAreBlocks) {
  // A head, three times the same five, a tail.
  const std::vector<std::uint32_t> three = {9, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 8};
  const Repeats found = find_repeats(three);
  EXPECT_EQ(found.begin, 1U);
  EXPECT_EQ(found.length, 5U);
  EXPECT_EQ(found.times, 3U);
  EXPECT_EQ(find_repeats(three, 4).times, 0U);
  EXPECT_EQ(find_repeats({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}).times, 0U);
  EXPECT_EQ(find_repeats({}).times, 0U);
}

TEST(Blocks, CompiledNetworkIsCheckpointedByItsKernels) {
  const Loaded compiled("h200-clean/gpt2-compiled.base");
  EXPECT_TRUE(repeated_blocks(compiled.base.model.graph).empty());
  EXPECT_GE(repeated_runs(compiled.base.model.graph).size(), 11U);  // the first of twelve begins with another kernel
  const Prediction p = compiled.predict("checkpoint");
  ASSERT_EQ(p.declined, "");
  EXPECT_LT(*p.peak_bytes, *compiled.base.figures.peak_bytes);
  Ns now = 0;
  for (const graph::TaskKind kind : {graph::TaskKind::kKernel, graph::TaskKind::kMemcpy, graph::TaskKind::kMemset}) {
    for (std::size_t t = 0; t < compiled.base.model.graph.size(); ++t)
      now += compiled.base.model.graph.kind[t] == kind ? compiled.base.model.graph.cost[t] : 0;
  }
  EXPECT_GT(p.gpu_time, now + now / 20);  // 15.8 ms measured, 13.7 without
  EXPECT_THAT(compiled.predict("checkpoint:layers=h.0").declined, HasSubstr("names no layers"));
}

TEST(Blocks, OneBlockThatRunsTwelveTimes) {
  const Loaded shared("h200-unseen/albert.base");
  EXPECT_TRUE(repeated_blocks(shared.base.model.graph).empty());
  const std::vector<BlockOfLayers> runs = repeated_runs(shared.base.model.graph);
  ASSERT_EQ(runs.size(), 12U);
  for (std::size_t i = 1; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].name, runs[0].name);
    // The last run's gradients come first.
    EXPECT_LT(shared.base.model.graph.measured[runs[i].first_backward],
              shared.base.model.graph.measured[runs[i - 1].first_backward]);
  }
}

}  // namespace
}  // namespace foretrace::whatif
