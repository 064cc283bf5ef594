// Samples and tokens per second: where the shapes say the batch, and where they leave a doubt.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "foretrace/analysis/summary.hpp"
#include "foretrace/trace/load.hpp"
#include "trace_maker.hpp"

namespace foretrace::analysis {
namespace {

SummaryReport summary_of(const trace::Trace& trace, const SummaryOptions& options = {}) {
  Result<SummaryReport> report = summarise(trace, trace::find_steps(trace), options);
  EXPECT_TRUE(report) << (report ? "" : report.error().to_string());
  return report ? *report : SummaryReport{};
}

SummaryReport summary_of(const std::string& file) {
  const Result<trace::Trace> trace = trace::load(FORETRACE_SOURCE_DIR "/" + file);
  EXPECT_TRUE(trace) << file;
  return trace ? summary_of(*trace) : SummaryReport{};
}

struct Op {
  std::string name, dims, types;
};

// A step of evaluation with these operations, each with a kernel.
trace::Trace step_of(const std::vector<Op>& ops) {
  test::TraceMaker m;
  m.step(1, 0, 10'000'000);
  Ns at = 10'000;
  int id = 0;
  for (const Op& op : ops) {
    ++id;
    m.event("cpu_op", op.name, 1, 1, {at, at + 100'000},
            fmt::format(R"("External id":{},"Input Dims":{},"Input type":{},"Concrete Inputs":["","",""])", id, op.dims,
                        op.types));
    m.launch(id, {at + 10'000, at + 20'000}, "kernel_of_" + std::to_string(id), {at + 30'000, at + 90'000});
    at += 200'000;
  }
  return m.load();
}

Op lookup(int vocabulary, const std::string& ids) {
  return {"aten::embedding", fmt::format("[[{},64],{},[]]", vocabulary, ids), R"(["float","long int","Scalar"])"};
}
Op attention(int batch, int length) {
  const std::string shape = fmt::format("[{},4,{},16]", batch, length);
  return {"aten::_scaled_dot_product_flash_attention", fmt::format("[{0},{0},{0}]", shape),
          R"(["float","float","float"])"};
}
Op convolution(int batch) {
  return {"aten::cudnn_convolution", fmt::format("[[{},3,32,32],[16,3,3,3],[]]", batch), R"(["float","float",""])"};
}

TEST(StepBatch, OfMeasuredSteps) {
  const SummaryReport images = summary_of("examples/resnet50-h200.json.gz");
  ASSERT_TRUE(images.batch);
  EXPECT_EQ(images.batch->samples, 64);
  EXPECT_FALSE(images.tokens_per_s);
  EXPECT_NEAR(*images.unprofiled_samples_per_s, 64e9 / static_cast<double>(images.simulated->unprofiled.step), 1e-6);
  const SummaryReport tokens = summary_of("data/h200-clean/bert_base.base.json.gz");
  ASSERT_TRUE(tokens.batch);
  EXPECT_EQ(*tokens.batch->tokens, 128 * *tokens.batch->samples);
  EXPECT_NEAR(*tokens.tokens_per_s, 128 * *tokens.unprofiled_samples_per_s, 1e-6);
}

TEST(StepBatch, TokensAreIdsThatAttentionRunsOver) {
  const SummaryReport known = summary_of(step_of({lookup(1000, "[8,32]"), lookup(512, "[1,32]"), attention(8, 32)}));
  ASSERT_TRUE(known.batch);
  EXPECT_EQ(known.batch->samples, 8);
  EXPECT_EQ(known.batch->tokens, 256);
  // Columns of categories are no sequence.
  EXPECT_FALSE(summary_of(step_of({lookup(1000, "[8,26]"), attention(8, 32)})).batch);
  // Looked up twice: two sequences for a sample, or two passes?
  EXPECT_FALSE(summary_of(step_of({lookup(1000, "[8,32]"), lookup(1000, "[8,32]"), attention(8, 32)})).batch);
  EXPECT_FALSE(summary_of(step_of({lookup(1000, "[8,32]"), lookup(900, "[8,40]"), attention(8, 32)})).batch);
  EXPECT_FALSE(summary_of(step_of({lookup(1000, "[256]"), attention(8, 32)})).batch);
}

TEST(StepBatch, ImagesHaveOneBatchInEveryConvolution) {
  const SummaryReport known = summary_of(step_of({convolution(16), convolution(16)}));
  ASSERT_TRUE(known.batch);
  EXPECT_EQ(known.batch->samples, 16);
  EXPECT_FALSE(summary_of(step_of({convolution(16), convolution(512)})).batch);
  // Frames of videos, folded into the batch: the loss knows the samples.
  const Op loss{"aten::nll_loss_forward", "[[4,10],[4],[]]", R"(["float","long int",""])"};
  EXPECT_FALSE(summary_of(step_of({convolution(16), convolution(16), loss})).batch);
}

TEST(StepBatch, TheUserKnowsBetter) {
  SummaryOptions options;
  options.samples = 4;
  const SummaryReport report = summary_of(step_of({convolution(16)}), options);
  EXPECT_EQ(report.batch->samples, 4);
  EXPECT_EQ(report.batch->source, "--batch");
  EXPECT_FALSE(summary_of(step_of({{"aten::relu", "[[16,3]]", R"(["float"])"}})).batch);
}

}  // namespace
}  // namespace foretrace::analysis
