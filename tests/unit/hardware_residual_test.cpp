// What a time in one precision or layout says of another, and what goes along to another GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/data_files.hpp"
#include "hardware/estimate.hpp"
#include "hardware/tables.hpp"

namespace foretrace::hardware {
namespace {

constexpr std::string_view kCorrelations = "hardware/kernels/H200-SXM.correlations.csv";

TEST(CategoryCorrelations, ArePairsOfWordsTakenTogether) {
  const CategoryCorrelations all("conv fwd dense,fp16,fp32,100,0.5\nconv fwd dense,nchw,nhwc,100,0.4\n");
  EXPECT_EQ(all.of("conv fwd dense fp16 nhwc", "conv fwd dense fp16 nhwc"), 1);
  EXPECT_EQ(all.of("conv fwd dense fp16 nhwc", "conv fwd dense fp32 nhwc"), 0.5);
  EXPECT_EQ(all.of("conv fwd dense fp32 nhwc", "conv fwd dense fp16 nhwc"), 0.5);
  EXPECT_DOUBLE_EQ(all.of("conv fwd dense fp32 nchw", "conv fwd dense fp16 nhwc"), 0.2);
  EXPECT_EQ(all.of("conv fwd dense fp32 nchw", "conv fwd dense tf32 nchw"), 0);      // nobody measured these together
  EXPECT_EQ(all.of("conv fwd dense fp32 nchw", "conv dgrad dense fp32 nchw"), 0);    // nor these
  EXPECT_EQ(all.of("conv fwd grouped fp16 nchw", "conv fwd grouped fp32 nchw"), 0);  // another form
  EXPECT_EQ(all.of("conv fwd dense fp16 nchw", "conv fwd fp32 nchw"), 0);
}

TEST(CategoryCorrelations, TheTableSaysWhatTheoryDoes) {
  const CategoryCorrelations all(data_file(kCorrelations));
  // Both half types run the same kernels; strict FP32 runs others.
  EXPECT_GT(all.of("conv fwd dense bf16 nhwc", "conv fwd dense fp16 nhwc"), 0.8);
  EXPECT_LT(all.of("conv fwd dense fp32 nhwc", "conv fwd dense fp16 nhwc"), 0.3);
  EXPECT_GT(all.of("conv fwd dense fp16 nchw", "conv fwd dense fp16 nhwc"), 0.3);
}

// No table has this shape.
Work conv(Dtype dtype, bool channels_last) {
  Work w(Family::kConvForward);
  w.dtype = w.out_dtype = dtype;
  w.kind = Convolution{.input = {40, 216, 26, 26},
                       .out_channels = 216,
                       .kernel_h = 3,
                       .kernel_w = 3,
                       .out_h = 26,
                       .out_w = 26,
                       .channels_last = channels_last};
  refresh(w);
  return w;
}

// A convolution takes half as long again as the tables say: so does what it becomes, as far as the two have residuals in common.
TEST(Residual, AMeasuredTimeCountsAsFarAsCategoriesCorrelate) {
  for (const double layouts : {0.0, 0.5, 1.0}) {
    const std::string csv =
        "conv fwd dense,fp16,fp32,9,0.5\nconv fwd dense,nchw,nhwc,9," + std::to_string(layouts) + "\n";
    const Tables tables(DataFiles::shipped().with({kCorrelations, csv}));
    const Device h200 = tables.device("H200-SXM");
    const auto more = [&](const Work& was, const Work& becomes) {
      const double measured = 1.5 * predict(was, h200, tables).ns;
      return rescale(measured, was, becomes, h200, tables).ns / predict(becomes, h200, tables).ns;
    };
    EXPECT_NEAR(more(conv(Dtype::kFp32, false), conv(Dtype::kFp16, false)), std::pow(1.5, 0.5), 1e-6);
    EXPECT_NEAR(more(conv(Dtype::kFp16, false), conv(Dtype::kFp16, true)), std::pow(1.5, layouts), 1e-6);
    EXPECT_NEAR(more(conv(Dtype::kFp32, false), conv(Dtype::kFp16, true)), std::pow(1.5, 0.5 * layouts), 1e-6);
  }
}

TEST(Residual, IsSurerOfWhatCorrelatesWithAMeasuredTime) {
  const Device h200 = *find_device("H200-SXM");
  const Work was = conv(Dtype::kBf16, true), half = conv(Dtype::kFp16, true), strict = conv(Dtype::kFp32, true);
  const double measured = predict(was, h200).ns;
  EXPECT_LT(rescale(measured, was, half, h200).sigma, 0.8 * predict(half, h200).sigma);
  EXPECT_GT(rescale(measured, was, strict, h200).sigma, 0.8 * predict(strict, h200).sigma);
}

TEST(Residual, GoesAlongWholeToTheSameSiliconAndInPartElsewhere) {
  const Residual& residual = Tables::shipped().residual();
  const Device h200 = *find_device("H200-SXM");
  const Device h100 = *find_device("H100-SXM5");
  const Device v100 = *find_device("V100-SXM2-16GB");
  for (const ProductKind kind : {ProductKind::kHalf, ProductKind::kFp32, ProductKind::kConv}) {
    EXPECT_EQ(residual.correlation(kind, h200, h100), 1);
    EXPECT_GE(residual.correlation(kind, v100, h200), 0);
    EXPECT_LT(residual.correlation(kind, v100, h200), 0.9);
  }
}

}  // namespace
}  // namespace foretrace::hardware
