// Sequences of another length: which dimensions they are, what follows them, and what declines.

#include <gmock/gmock.h>

#include "measured_step.hpp"
#include "whatif/dataflow/sequence_shapes.hpp"

namespace foretrace::whatif {
namespace {

using test::measured_step;
using test::predicted;
using testing::HasSubstr;
using work::Shape;

constexpr const char* kGpt2 = "h200-lengths/gpt2-today";
constexpr const char* kBert = "h200-lengths/bert_large8-today";
constexpr const char* kT5 = "h200-lengths/t5_4x4-today";

SequenceShapes shapes_of(const char* name) {
  Result<SequenceShapes> found = SequenceShapes::find(measured_step(name).model);
  EXPECT_TRUE(found) << found.error().to_string();
  return std::move(*found);
}

TEST(SequenceShapes, TokensRowsAndScoresGrowFeaturesDoNot) {
  const SequenceShapes s = shapes_of(kGpt2);  // 8 samples of 512 tokens, 768 wide, 12 heads
  EXPECT_EQ(s.longer({8, 512, 768}, false, 2), (Shape{8, 1024, 768}));
  EXPECT_EQ(s.longer({4096, 3072}, false, 0.5), (Shape{2048, 3072}));
  EXPECT_EQ(s.longer({8, 12, 512, 512}, false, 2), (Shape{8, 12, 1024, 1024}));
  EXPECT_EQ(s.longer({96, 64, 512}, false, 2), (Shape{96, 64, 1024}));
  EXPECT_EQ(s.longer({768, 3072}, false, 2), (Shape{768, 3072}));
  EXPECT_EQ(s.longer({50257, 768}, false, 2), (Shape{50257, 768}));
  EXPECT_EQ(s.longer({8, 512}, true, 2), (Shape{8, 1024}));
  EXPECT_EQ(s.longer({8 * 511, 50257}, false, 2), (Shape{8 * 1023, 50257}));  // labels shifted by one
  EXPECT_EQ(s.longer({8, 768}, false, 2), (Shape{8, 768}));                   // one row a sample
}

TEST(SequenceShapes, AnEncoderAndADecoderEachHaveTheirLength) {
  const SequenceShapes s = shapes_of(kT5);  // 64 samples of 256 and 128 tokens, 16 heads of 64
  EXPECT_EQ(s.longer({64, 16, 128, 256}, false, 2), (Shape{64, 16, 256, 512}));
  EXPECT_EQ(s.longer({1024, 256, 64}, false, 2), (Shape{1024, 512, 64}));
  EXPECT_EQ(s.longer({16384, 1024}, false, 2), (Shape{32768, 1024}));
  EXPECT_EQ(s.longer({1024, 1024}, false, 2), (Shape{1024, 1024}));
}

TEST(SequenceShapes, WhereALayerIsAsWideAsTheSequenceIsLongThePlaceDecides) {
  // bert_large8 is 1024 wide at 512 tokens; read at twice the length, both are 1024.
  const SequenceShapes s = shapes_of(kBert);
  EXPECT_TRUE(s.per_position(16 * 512));
  EXPECT_FALSE(s.per_position(16));
  const std::vector<SequenceShapes::Table>& tables = s.position_tables();
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables.front().rows, 512);
  EXPECT_EQ(tables.front().columns, 1024);
}

TEST(Sequence, OneChangesNothing) {
  for (const char* name : {kGpt2, kBert, kT5}) {
    const Prediction base = predicted(name, {});
    const Prediction same = predicted(name, {"sequence:x=1"});
    ASSERT_EQ(same.declined, "") << name;
    EXPECT_EQ(same.step, base.step) << name;
    EXPECT_EQ(same.gpu_time, base.gpu_time) << name;
    EXPECT_EQ(same.peak_bytes, base.peak_bytes) << name;
  }
}

TEST(Sequence, TwiceAndHalfIsAboutTheSame) {
  for (const char* name : {kGpt2, kT5, "h200-lengths/llama_gqa-today"}) {
    const Prediction base = predicted(name, {});
    const Prediction back = predicted(name, {"sequence:x=2", "sequence:x=0.5"});
    ASSERT_EQ(back.declined, "") << name;
    EXPECT_NEAR(static_cast<double>(back.gpu_time) / static_cast<double>(base.gpu_time), 1, 0.03) << name;
    EXPECT_NEAR(static_cast<double>(*back.peak_bytes) / static_cast<double>(*base.peak_bytes), 1, 0.02) << name;
  }
}

TEST(Sequence, LongerNeverTakesLess) {
  for (const char* name : {kGpt2, "h200-clean/gpt2"}) {
    Ns gpu = 0;
    std::int64_t peak = 0;
    for (const char* x : {"0.25", "0.5", "1.5", "2", "3", "4", "8"}) {
      const Prediction p = predicted(name, {std::string("sequence:x=") + x});
      ASSERT_EQ(p.declined, "") << x;
      EXPECT_GT(p.gpu_time, gpu) << name << " " << x;
      EXPECT_GT(*p.peak_bytes, peak) << name << " " << x;
      EXPECT_EQ(p.samples, 1) << "as many samples as before";
      gpu = p.gpu_time;
      peak = *p.peak_bytes;
    }
  }
}

TEST(Sequence, ScoresFollowTheSquare) {
  const auto softmax = [](const Prediction& p) {
    for (const FamilyTime& f : p.gpu_families) {
      if (f.family == "softmax") return static_cast<double>(f.total());
    }
    return 0.0;
  };
  // Attention computed from its parts: the softmax over scores and that over the vocabulary.
  const Prediction base = predicted("h200-clean/gpt2", {});
  const Prediction twice = predicted("h200-clean/gpt2", {"sequence:x=2"});
  EXPECT_GT(softmax(twice), 2.5 * softmax(base));
  const Prediction fused = predicted(kGpt2, {"sequence:x=2"});
  EXPECT_LT(static_cast<double>(fused.gpu_time), 2.1 * static_cast<double>(predicted(kGpt2, {}).gpu_time));
}

TEST(Sequence, ATableOfPositionsThatIsTooShortGrows) {
  const Prediction p = predicted(kBert, {"sequence:x=2"});
  EXPECT_THAT(p.not_modelled, testing::Contains(HasSubstr("512 rows and must grow to 1024")));
  EXPECT_GT(p.peak_parts->parameters, predicted(kBert, {}).peak_parts->parameters);
  EXPECT_THAT(predicted(kGpt2, {"sequence:x=2"}).not_modelled, testing::Not(testing::Contains(HasSubstr("must grow"))));
}

TEST(Sequence, DeclinesWhatHasNone) {
  const auto reason = [](const char* name) { return predicted(name, {"sequence:x=2"}).declined; };
  EXPECT_THAT(reason("h200-clean/resnet50"), HasSubstr("looks no tokens up"));
  EXPECT_THAT(reason("h200-lengths/vit_b_16-today"), HasSubstr("looks no tokens up"));
  EXPECT_THAT(reason("h200-clean/dlrm@2048"), HasSubstr("no sequence dimension"));
  EXPECT_THAT(reason("h200-clean/gpt2-compiled"), HasSubstr("a compiled step does not show"));
}

TEST(Sequence, RecurrentLayersTakeMoreSteps) {
  const Prediction base = predicted("h200-clean/lstm_lm@8", {});
  const Prediction twice = predicted("h200-clean/lstm_lm@8", {"sequence:x=2"});
  ASSERT_EQ(twice.declined, "");
  EXPECT_GT(twice.gpu_time, base.gpu_time);
}

TEST(Sequence, StacksWithOtherChanges) {
  for (const char* other : {"batch:x=2", "ddp", "gpu:to=A100-SXM4-80GB", "fused-optimizer"}) {
    const Prediction before = predicted("h200-clean/gpt2", {other, "sequence:x=0.5"});
    const Prediction behind = predicted("h200-clean/gpt2", {"sequence:x=0.5", other});
    ASSERT_EQ(before.declined, "") << other;
    ASSERT_EQ(behind.declined, "") << other;
    EXPECT_NEAR(static_cast<double>(before.gpu_time), static_cast<double>(behind.gpu_time),
                0.08 * static_cast<double>(behind.gpu_time))
        << other;
  }
  for (const char* other : {"amp:dtype=bf16", "flash-attention", "checkpoint", "accumulate:n=2"}) {
    const Prediction behind = predicted("h200-clean/gpt2", {other, "sequence:x=2"});
    ASSERT_EQ(behind.declined, "") << other;
    EXPECT_GT(behind.gpu_time, predicted("h200-clean/gpt2", {other}).gpu_time) << other;
  }
  // Half the length of twice the batch: as many tokens, fewer scores.
  const Prediction moved = predicted(kGpt2, {"batch:x=2", "sequence:x=0.5"});
  EXPECT_NEAR(static_cast<double>(moved.gpu_time) / static_cast<double>(predicted(kGpt2, {}).gpu_time), 1, 0.06);
  EXPECT_EQ(moved.samples, 2);
}

TEST(Sequence, IsAnotherQuestionNotAnOptimization) {
  const WhatIf& w = **find_whatif("sequence");
  EXPECT_TRUE(w.advise.empty());
  EXPECT_EQ(w.changes, Changes::kSequence);
  EXPECT_EQ(w.parts.cpu, Part::kUnchanged);
}

}  // namespace
}  // namespace foretrace::whatif
