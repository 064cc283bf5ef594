#include "foretrace/compare/compare.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <cmath>

#include "foretrace/report/report.hpp"
#include "foretrace/trace/load.hpp"
#include "trace_maker.hpp"

namespace foretrace::compare {
namespace {

using testing::HasSubstr;
using testing::Not;

trace::Trace load(const std::string& file) {
  Result<trace::Trace> trace = trace::load(FORETRACE_SOURCE_DIR "/" + file);
  EXPECT_TRUE(trace) << (trace ? "" : trace.error().to_string());
  return trace ? std::move(*trace) : trace::Trace{};
}

Comparison between(const trace::Trace& before, const trace::Trace& after, const Options& options = {}) {
  Result<Comparison> c = compare({&before}, {&after}, options);
  EXPECT_TRUE(c) << (c ? "" : c.error().to_string());
  return c ? std::move(*c) : Comparison{};
}

/// `kernels` of one length, each behind its operation; two steps.
trace::Trace steps_of(int kernels, Ns length, const char* name = "ampere_sgemm_128x64_tn") {
  test::TraceMaker m;
  constexpr Ns kUs = kNsPerUs;
  const Ns step = (kernels * (length + 5 * kUs) + 100 * kUs);
  for (int s = 0; s < 2; ++s) {
    const Ns begin = s * step;
    m.step(3 + s, begin, begin + step);
    for (int k = 0; k < kernels; ++k) {
      const Ns at = begin + 10 * kUs + k * (length + 5 * kUs);
      m.op("aten::mm", at, at + 4 * kUs);
      m.launch(1 + s * kernels + k, {at + kUs, at + 3 * kUs}, name, {at + 4 * kUs, at + 4 * kUs + length});
    }
    m.call("cudaDeviceSynchronize", {begin + step - 60 * kUs, begin + step - 10 * kUs}, 1000 + s);
  }
  return m.load();
}

TEST(Compare, ARecordingDoesNotDifferFromItself) {
  const trace::Trace trace = load("examples/resnet50-h200.json.gz");
  const Comparison c = between(trace, trace);
  EXPECT_TRUE(c.same());
  EXPECT_EQ(c.change_pct, 0);
  EXPECT_DOUBLE_EQ(c.matched_share, 1);
  EXPECT_THAT(report::sentences(c).front(), HasSubstr("No difference in the step beyond noise"));
}

TEST(Compare, AChangeIsNamedFirst) {
  const trace::Trace base = load("data/h200-more/vit_b_16.base.json.gz");
  const trace::Trace amp = load("data/h200-more/vit_b_16.amp.json.gz");
  const Comparison c = between(base, amp);
  ASSERT_FALSE(c.causes.empty());
  EXPECT_EQ(c.causes.front().whatif, "amp");
  EXPECT_LT(c.change_pct, 0);
  EXPECT_THAT(report::sentences(c).front(), HasSubstr("Mixed precision"));
  const Comparison back = between(amp, base);
  EXPECT_GT(back.change_pct, 0);
  EXPECT_EQ(back.causes.front().whatif, "");  // no change of the catalogue leads back
}

TEST(Compare, AllPartsOfACombinationAreNamed) {
  const Comparison c =
      between(load("data/h200-clean/gpt2.base.json.gz"), load("data/h200-clean/gpt2.bf16sdpafused.json.gz"));
  std::vector<std::string> named;
  for (const Cause& cause : c.causes) {
    if (cause.kind == CauseKind::kSetup) named.push_back(cause.whatif);
  }
  EXPECT_THAT(named, testing::ElementsAre("amp:dtype=bf16", "flash-attention", "fused-optimizer"));
  EXPECT_EQ(c.decided, DecidedBy::kRecorded);
}

TEST(Compare, EveryDifferenceIsExplainedByAUseOfTheCatalogue) {
  using whatif::Difference;
  for (const Difference difference :
       {Difference::kProductsInFp16, Difference::kProductsInBf16, Difference::kProductsInTf32,
        Difference::kUpdateOverLists, Difference::kUpdateFused, Difference::kAttentionFused,
        Difference::kMoreHostCopies, Difference::kGradientsInOtherType, Difference::kOtherBuckets}) {
    const std::string use = whatif::use_that_explains(difference);
    const Result<const whatif::WhatIf*> found = whatif::find_whatif(use.substr(0, use.find(':')));
    EXPECT_TRUE(found) << static_cast<int>(difference) << " " << use;
  }
  EXPECT_EQ(whatif::use_that_explains(Difference::kProductsInBf16), "amp:dtype=bf16");
}

TEST(Compare, RecordingsOfOneProgramDoNotDiffer) {
  const Comparison c = between(load("data/h200-clean/recordings/lstm_lm.base.00.json.gz"),
                               load("data/h200-clean/recordings/lstm_lm.base.02.json.gz"));
  EXPECT_FALSE(c.beyond_noise()) << c.change_pct << " " << c.noise_pct;
}

TEST(Compare, SlowerKernelsAreFoundWhereNothingElseMoved) {
  const trace::Trace before = steps_of(40, 200 * kNsPerUs), after = steps_of(40, 210 * kNsPerUs);
  const Comparison c = between(before, after);
  ASSERT_FALSE(c.causes.empty());
  EXPECT_EQ(c.causes.front().kind, CauseKind::kKernels);
  EXPECT_THAT(c.causes.front().what, HasSubstr("5.0 % longer"));
  EXPECT_NEAR(to_ms(c.causes.front().time), 40 * 0.010, 1e-3);
}

TEST(Compare, OtherWorkIsNotSlowerWork) {
  const Comparison c = between(steps_of(40, 200 * kNsPerUs), steps_of(60, 200 * kNsPerUs));
  ASSERT_FALSE(c.causes.empty());
  for (const Cause& cause : c.causes) EXPECT_NE(cause.kind, CauseKind::kKernels) << cause.what;
}

TEST(Compare, NoiseIsTheSameForAFactorUpAndDown) {
  Comparison c;
  c.noise_pct = 50;
  c.change_pct = -30;  // 1.43 times as fast
  EXPECT_FALSE(c.beyond_noise());
  c.change_pct = -35;  // 1.54
  EXPECT_TRUE(c.beyond_noise());
}

TEST(Compare, TheUsersFiguresDecideWhereGiven) {
  const trace::Trace trace = load("examples/resnet50-h200.json.gz");
  const Comparison c = between(trace, trace, {.before_ms = 71.0, .after_ms = 75.0});
  EXPECT_EQ(c.decided, DecidedBy::kUser);
  EXPECT_NEAR(c.change_pct, 100 * (75.0 / 71.0 - 1), 1e-6);
}

TEST(Compare, APredictionIsHeldAgainstWhatWasMeasured) {
  Options options;
  options.whatif = {*whatif::parse_use("amp:dtype=bf16"), *whatif::parse_use("flash-attention"),
                    *whatif::parse_use("fused-optimizer")};
  const Comparison c =
      between(load("data/h200-clean/gpt2.base.json.gz"), load("data/h200-clean/gpt2.bf16sdpafused.json.gz"), options);
  ASSERT_TRUE(c.verdict);
  EXPECT_TRUE(c.verdict->prediction.declined.empty());
  ASSERT_TRUE(c.verdict->gpu_error_pct && c.verdict->step_error_pct && c.verdict->memory_error_pct);
  EXPECT_LT(std::abs(*c.verdict->gpu_error_pct), 15);
  EXPECT_FALSE(c.verdict->families.empty());
  EXPECT_FALSE(c.verdict->residuals.empty());
  for (const auto& row : c.verdict->residuals) EXPECT_EQ(row.model, "gpt2.base");
}

TEST(Compare, JsonAndMarkdownHoldWhatTheTextSays) {
  const Comparison c = between(steps_of(40, 200 * kNsPerUs, "gemm<a|b>`x`"),
                               steps_of(40, 210 * kNsPerUs, "gemm<a|b>`x`"), {.gate_pct = 3});
  simdjson::dom::parser parser;
  simdjson::dom::element json;
  ASSERT_EQ(parser.parse(report::to_json(c)).get(json), simdjson::SUCCESS);
  EXPECT_EQ(std::string_view(json["verb"]), "compare");
  EXPECT_EQ(json["causes"].get_array().size(), c.causes.size());
  const std::string markdown = report::to_markdown(c);
  EXPECT_THAT(markdown, Not(HasSubstr("gemm<a")));  // a name cannot be markup, nor end a cell
  EXPECT_THAT(report::to_text(c), HasSubstr("gate of 3 %"));
}

TEST(Compare, NoStepIsDeclined) {
  const trace::Trace empty, trace = steps_of(4, 1000);
  const Result<Comparison> c = compare({&trace}, {&empty});
  ASSERT_FALSE(c);
  EXPECT_EQ(c.error().code, ErrorCode::kDeclined);
}

}  // namespace
}  // namespace foretrace::compare
