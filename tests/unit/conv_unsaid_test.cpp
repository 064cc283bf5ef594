// Convolutions of which only the tensors were recorded, as NVTX ranges have them.

#include "work/conv_unsaid.hpp"

#include <gtest/gtest.h>

#include "trace_maker.hpp"

namespace foretrace::work {
namespace {

TEST(ConvUnsaid, TheStrideThatMakesOneSizeOfAnother) {
  EXPECT_EQ(stride_between(224, 112, 7), 2);
  EXPECT_EQ(stride_between(56, 56, 3), 1);
  EXPECT_EQ(stride_between(56, 54, 3), 1);  // not padded
  EXPECT_EQ(stride_between(7, 4, 3), 2);    // 1.75
  EXPECT_EQ(stride_between(11, 7, 5), 1);   // 1.57, and still 1
  EXPECT_EQ(stride_between(224, 14, 16), 16);
  EXPECT_EQ(stride_between(80000, 15999, 10), 5);
  EXPECT_EQ(stride_between(5, 9, 3), 1);  // nothing does
  EXPECT_EQ(stride_between(0, 0, 0), 1);
}

/// Operations with the sizes of their tensors and nothing else, each with a kernel.
class Ranges {
 public:
  Ranges& op(std::string_view name, std::string_view sizes, const std::string& kernel) {
    maker_.launch(++correlation_, {at_ + 1'000, at_ + 3'000}, kernel, {gpu_, gpu_ + 5'000});
    maker_.event("cpu_op", name, 1, 1, {at_, at_ + 5'000}, fmt::format(R"("Input Dims":{})", sizes));
    at_ += 10'000;
    gpu_ += 10'000;
    return *this;
  }
  std::vector<Convolution> convolutions() {
    maker_.step(1, 0, gpu_ + 1'000'000);
    const trace::Trace trace = maker_.load();
    const trace::Steps steps = trace::find_steps(trace);
    const Result<graph::Graph> graph = graph::GraphBuilder(trace, steps).build(0);
    std::vector<Convolution> out;
    if (!graph) {
      ADD_FAILURE() << graph.error().to_string();
      return out;
    }
    const Works works = describe(trace, *graph);
    for (std::uint32_t t = 0; t < graph->size(); ++t) {
      const Work* work = works.of(t);
      if (work == nullptr) continue;
      if (const auto* c = std::get_if<Convolution>(&work->kind)) out.push_back(*c);
    }
    return out;
  }

 private:
  test::TraceMaker maker_;
  Ns at_ = 10'000, gpu_ = 100'000;
  int correlation_ = 0;
};

TEST(ConvUnsaid, AForwardConvolutionTakesTheSizeItsGradientNames) {
  const auto found =
      Ranges()
          .op("aten::cudnn_convolution", "[[8, 64, 56, 56], [128, 64, 3, 3]]", "sgemm_fprop")
          .op("aten::cudnn_convolution", "[[8, 64, 56, 56], [128, 64, 3, 3]]", "sgemm_fprop")
          .op("aten::convolution_backward", "[[8, 128, 28, 28], [8, 64, 56, 56], [128, 64, 3, 3]]", "sgemm_wgrad")
          .op("aten::convolution_backward", "[[8, 128, 56, 56], [8, 64, 56, 56], [128, 64, 3, 3]]", "sgemm_wgrad")
          .convolutions();
  ASSERT_EQ(found.size(), 4u);
  // The last gradient is the first convolution's.
  EXPECT_EQ(found[0].out_h, 56);
  EXPECT_EQ(found[0].stride, 1);
  EXPECT_EQ(found[1].out_h, 28);
  EXPECT_EQ(found[1].out_w, 28);
  EXPECT_EQ(found[1].stride, 2);
  EXPECT_EQ(found[2].stride, 2);
}

TEST(ConvUnsaid, WithoutAGradientTheSizeIsKeptAndTheWeightTellsTheGroups) {
  const auto found =
      Ranges().op("aten::cudnn_convolution", "[[8, 64, 56, 56], [64, 4, 3, 3]]", "sgemm_fprop").convolutions();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].out_h, 56);
  EXPECT_EQ(found[0].groups, 16);
  EXPECT_FALSE(found[0].channels_last);
}

TEST(ConvUnsaid, KernelsTellTheOrderOfImages) {
  constexpr std::string_view kSizes = "[[8, 64, 56, 56], [64, 64, 3, 3]]";
  const auto last = Ranges()
                        .op("aten::cudnn_convolution", kSizes, "sm90_xmma_fprop_bf16_nhwckrsc_nhwc")
                        .op("aten::cudnn_convolution", "[[8, 64, 56, 56], [64, 64, 1, 1]]", "nvjet_hsh_128x64")
                        .convolutions();
  ASSERT_EQ(last.size(), 2u);
  EXPECT_TRUE(last[0].channels_last);
  EXPECT_TRUE(last[1].channels_last);  // a product's kernel says nothing
  // Copied there and back: it was not.
  const auto copied = Ranges().op("aten::cudnn_convolution", kSizes, "cudnn::ops::nchwToNhwcKernel").convolutions();
  for (const Convolution& c : copied) EXPECT_FALSE(c.channels_last);
}

}  // namespace
}  // namespace foretrace::work
