// Models of more and fewer blocks: against measured steps of the same model at another depth, and what declines.

#include <gmock/gmock.h>

#include "measured_step.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::whatif {
namespace {

using test::measured_step;
using test::predicted;
using testing::HasSubstr;

constexpr const char* kGpt2 = "h200-clean/gpt2";

double ratio(Ns a, Ns b) { return static_cast<double>(a) / static_cast<double>(b); }

// BERT-large was measured with 4 blocks (64 samples of 128 tokens) and with 8 (48 of 256).
TEST(Depth, FourBlocksSpeakForEight) {
  const Prediction p = predicted("h200-catalogue/bert_l4", {"sequence:x=2", "batch:x=0.75", "layers:n=8"});
  ASSERT_EQ(p.declined, "");
  EXPECT_NEAR(static_cast<double>(p.step), 233.05e6, 0.03 * 233.05e6);
  EXPECT_NEAR(static_cast<double>(*p.peak_bytes), 16.708e9, 0.02 * 16.708e9);
}

TEST(Depth, EightBlocksSpeakForFour) {
  const Prediction p = predicted("h200-more/bert_l8", {"sequence:x=0.5", "batch:x=1.3333333333", "layers:n=4"});
  ASSERT_EQ(p.declined, "");
  EXPECT_NEAR(static_cast<double>(p.step), 95.6e6, 0.03 * 95.6e6);
}

TEST(Depth, TheSameNumberChangesNothing) {
  const Prediction base = predicted(kGpt2, {});
  const Prediction same = predicted(kGpt2, {"layers:n=12"});
  ASSERT_EQ(same.declined, "");
  EXPECT_EQ(same.step, base.step);
  EXPECT_EQ(same.peak_bytes, base.peak_bytes);
}

TEST(Depth, EveryBlockAddsTheSame) {
  const Prediction a = predicted(kGpt2, {"layers:n=12"});
  const Prediction b = predicted(kGpt2, {"layers:n=18"});
  const Prediction c = predicted(kGpt2, {"layers:n=24"});
  EXPECT_NEAR(ratio(c.gpu_time - b.gpu_time, b.gpu_time - a.gpu_time), 1, 0.001);
  EXPECT_NEAR(ratio(*c.peak_bytes - *b.peak_bytes, *b.peak_bytes - *a.peak_bytes), 1, 0.001);
  EXPECT_GT(c.peak_parts->parameters, b.peak_parts->parameters);
  EXPECT_GT(c.peak_parts->optimizer_states, b.peak_parts->optimizer_states);
  EXPECT_EQ(predicted(kGpt2, {"layers:x=2"}).step, c.step);
}

// A model recorded with one block: the only numbered module is taken for it, as long as it is the only one.
TEST(Depth, OneBlockSpeaksForMany) {
  Model one = test::step_at("data/h200-decoders/llama405b@1x4096.json.gz").model;
  const Prediction few = predicted(one, {"layers:n=1"});
  const Prediction two = predicted(one, {"layers:n=2"});
  const Prediction four = predicted(one, {"layers:n=4"});
  ASSERT_EQ(four.declined, "");
  EXPECT_NEAR(ratio(four.gpu_time - two.gpu_time, two.gpu_time - few.gpu_time), 2, 0.01);
  EXPECT_NEAR(static_cast<double>(four.peak_parts->parameters - few.peak_parts->parameters), 3 * 2 * 3187.7e6,
              0.01 * 6 * 3187.7e6);
  EXPECT_FALSE(four.not_modelled.empty());
  for (graph::Layer& layer : one.graph.layers) {
    if (one.graph.strings[layer.name] == "head") layer.name = one.graph.strings.intern("tail.0.head");
  }
  EXPECT_THAT(predicted(one, {"layers:n=4"}).declined, HasSubstr("no block of layers repeats"));
}

TEST(Depth, MoreAndFewerUndoEachOther) {
  const Prediction base = predicted(kGpt2, {});
  const Prediction back = predicted(kGpt2, {"layers:n=24", "layers:n=12"});
  ASSERT_EQ(back.declined, "");
  EXPECT_NEAR(ratio(back.gpu_time, base.gpu_time), 1, 0.03);
}

// A copied block is copied as the other changes leave it, whatever the order they are named in.
TEST(Depth, OrderDoesNotMatter) {
  for (const char* other : {"amp", "flash-attention", "checkpoint", "compile", "batch:x=2", "fused-optimizer"}) {
    const Prediction before = predicted(kGpt2, {other, "layers:n=24"});
    const Prediction behind = predicted(kGpt2, {"layers:n=24", other});
    ASSERT_EQ(before.declined, "") << other;
    EXPECT_EQ(before.step, behind.step) << other;
    EXPECT_EQ(before.peak_bytes, behind.peak_bytes) << other;
  }
  EXPECT_EQ(predicted(kGpt2, {"amp", "accumulate:n=2"}).step, predicted(kGpt2, {"accumulate:n=2", "amp"}).step);
}

TEST(Depth, CudaGraphsHoldAllBlocks) {
  const Prediction few = predicted(kGpt2, {"cuda-graph"});
  const Prediction many = predicted(kGpt2, {"cuda-graph", "layers:n=24"});
  ASSERT_EQ(many.declined, "");
  EXPECT_GT(ratio(many.gpu_time, few.gpu_time), 1.6);
}

// Gradients of added blocks are those of the block they are copies of: they are reduced and gathered like all others.
TEST(Depth, WorkersReduceWhatIsAdded) {
  const Prediction few = predicted(kGpt2, {"ddp:workers=8"});
  const Prediction many = predicted(kGpt2, {"layers:n=24", "ddp:workers=8"});
  ASSERT_EQ(many.declined, "");
  const auto size = [](const std::vector<const char*>& uses) {
    std::vector<Use> parsed;
    for (const char* const text : uses) parsed.push_back(*parse_use(text));
    const Result<Model> m = apply_uses(measured_step(kGpt2).model, parsed);
    return static_cast<double>(find_gradients(*m)->elements) / static_cast<double>(m->parameter_elements);
  };
  EXPECT_NEAR(size({"layers:n=24"}), size({}), 0.01);
  EXPECT_GT(many.communication, few.communication);
  const auto gathers = [](const Prediction& p) {
    int n = 0;
    for (std::uint32_t t = 0; t < p.graph.size(); ++t) n += p.graph.task_name(t) == "all-gather of a unit" ? 1 : 0;
    return n;
  };
  // Each added block is gathered in both passes.
  EXPECT_EQ(
      gathers(predicted(kGpt2, {"layers:n=24", "fsdp:workers=8"})) - gathers(predicted(kGpt2, {"fsdp:workers=8"})),
      2 * 12);
}

TEST(Depth, SeveralListsAreChosenFrom) {
  constexpr const char* kT5 = "h200-clean/t5_4x4@2";
  EXPECT_THAT(predicted(kT5, {"layers:n=8"}).declined, HasSubstr("choose with of="));
  const Prediction encoder = predicted(kT5, {"layers:n=8,of=encoder*"});
  const Prediction both = predicted(kT5, {"layers:n=8,of=*"});
  ASSERT_EQ(encoder.declined, "");
  EXPECT_GT(both.gpu_time, encoder.gpu_time);
  EXPECT_THAT(predicted(kT5, {"layers:n=8,of=middle"}).declined, HasSubstr("there are: encoder"));
}

TEST(Depth, DeclinesWhereNothingRepeats) {
  EXPECT_THAT(predicted("h200-clean/mlp", {"layers:n=8"}).declined, HasSubstr("no block of layers repeats"));
  EXPECT_FALSE(parse_use("layers:n=8,x=2"));
  EXPECT_FALSE(parse_use("layers:n=2.5"));
}

}  // namespace
}  // namespace foretrace::whatif
