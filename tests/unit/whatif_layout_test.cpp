// Copies of tensors between memory layouts: which convolutions make them, what they cost, and that they come and go as tasks.

#include <gtest/gtest.h>

#include "hardware/choice/layout_changes.hpp"
#include "hardware/cost.hpp"
#include "measured_step.hpp"

namespace foretrace::whatif {
namespace {

using hardware::LayoutChange;
using work::Convolution;
using work::Dtype;
using work::Family;
using work::Work;

Work convolution(Family family, Dtype dtype, bool channels_last, std::int64_t taps = 3, std::int64_t stride = 1,
                 std::int64_t groups = 1) {
  Work w(family);
  w.dtype = w.out_dtype = dtype;
  w.kind = Convolution{.input = {8, 64, 28, 28},
                       .out_channels = 128,
                       .kernel_h = taps,
                       .kernel_w = taps,
                       .stride = stride,
                       .groups = groups,
                       .out_h = 28 / stride,
                       .out_w = 28 / stride,
                       .channels_last = channels_last};
  return w;
}

std::vector<std::int64_t> sizes(const Work& w) {
  std::vector<std::int64_t> all;
  for (const LayoutChange& c : hardware::layout_changes(w)) all.push_back(c.elements);
  return all;
}

TEST(LayoutChanges, OperandsAndResultOfTensorCoresInTheOtherLayout) {
  constexpr std::int64_t kIn = 8 * 64 * 28 * 28;
  constexpr std::int64_t kOut = 8 * 128 * 28 * 28;
  constexpr std::int64_t kFilter = 128 * 64 * 9;
  using Sizes = std::vector<std::int64_t>;
  for (const Dtype dtype : {Dtype::kFp16, Dtype::kBf16, Dtype::kTf32}) {
    EXPECT_EQ(sizes(convolution(Family::kConvForward, dtype, false)), (Sizes{kIn, kFilter, kOut}));
    EXPECT_EQ(sizes(convolution(Family::kConvDataGrad, dtype, false)), (Sizes{kOut, kFilter, kIn}));
    EXPECT_EQ(sizes(convolution(Family::kConvWeightGrad, dtype, false)), (Sizes{kIn, kOut, kFilter}));
    EXPECT_TRUE(sizes(convolution(Family::kConvForward, dtype, true)).empty());
    EXPECT_TRUE(sizes(convolution(Family::kConvForward, dtype, false, 1)).empty()) << "a product as it lies";
    EXPECT_EQ(sizes(convolution(Family::kConvForward, dtype, false, 1, 2)).size(), 2U) << "one tap: no filter";
    EXPECT_TRUE(sizes(convolution(Family::kConvForward, dtype, false, 3, 1, 64)).empty()) << "depthwise";
    EXPECT_EQ(sizes(convolution(Family::kConvForward, dtype, false, 3, 1, 4)).size(), 3U);
  }
}

TEST(LayoutChanges, StrictKernelsWantTheOther) {
  EXPECT_TRUE(sizes(convolution(Family::kConvForward, Dtype::kFp32, false)).empty());
  EXPECT_EQ(sizes(convolution(Family::kConvForward, Dtype::kFp32, true)).size(), 3U);
  EXPECT_EQ(sizes(convolution(Family::kConvDataGrad, Dtype::kFp32, true, 1)).size(), 2U);
  EXPECT_TRUE(sizes(convolution(Family::kConvWeightGrad, Dtype::kFp32, true)).empty());
  EXPECT_TRUE(sizes(work::gemm_work(1, 64, 64, 64, Dtype::kFp16)).empty());
}

TEST(LayoutChanges, CostWhatTheirBytesSay) {
  // nchwToNhwc on an H200: 2,295 GB/s in half, 3,590 in FP32 where tensors are large (data/h200-operations).
  const Result<hardware::Device> device = hardware::find_device("H200-SXM");
  ASSERT_TRUE(device);
  const auto rate = [&](Dtype dtype, double bytes) {
    return 2 * bytes * 1e8 / predict(work::relayout_work(100'000'000, dtype), *device).ns;
  };
  EXPECT_NEAR(rate(Dtype::kFp16, 2), 2295, 0.05 * 2295);
  EXPECT_NEAR(rate(Dtype::kFp32, 4), 3590, 0.05 * 3590);
  EXPECT_NEAR(predict(work::relayout_work(1000, Dtype::kFp16), *device).ns, 1800, 300);
}

struct Copies {
  int kernels = 0;
  double ms = 0;
};
Copies copies_in(const graph::Graph& g) {
  Copies all;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t]) || !hardware::is_layout_change(g.task_name(t))) continue;
    ++all.kernels;
    all.ms += static_cast<double>(g.cost[t]) / 1e6;
  }
  return all;
}

// What the traces of the same steps after the change hold (h200-more/vgg16.amp, .tf32, .ampcl, h200-families/unet.amp).
TEST(LayoutChanges, AreTasksAsInTheStepThatRan) {
  struct Row {
    const char* name;
    std::vector<std::string> uses;
    int kernels;
    double ms;
  };
  const Row rows[] = {
      {"h200-more/vgg16", {"amp"}, 111, 13.9},
      {"h200-more/vgg16", {"tf32"}, 108, 16.3},
      {"h200-families/unet", {"amp"}, 158, 7.0},
  };
  for (const Row& row : rows) {
    const Prediction p = test::predicted(row.name, row.uses);
    ASSERT_EQ(p.declined, "") << row.name;
    const Copies copies = copies_in(p.graph);
    EXPECT_NEAR(copies.kernels, row.kernels, 0.1 * row.kernels) << row.name << " " << p.whatif;
    EXPECT_NEAR(copies.ms / row.ms, 1, 0.25) << row.name << " " << p.whatif;
  }
}

TEST(LayoutChanges, GoWithWhatBroughtThem) {
  EXPECT_EQ(copies_in(test::measured_step("h200-more/vgg16").model.graph).kernels, 0);
  EXPECT_EQ(copies_in(test::predicted("h200-more/vgg16", {"amp", "channels-last"}).graph).kernels, 0);
  EXPECT_EQ(copies_in(test::predicted("h200-more/vgg16", {"channels-last", "amp"}).graph).kernels, 0);
  // Strict FP32 in NHWC is copied the other way round, forward and for the data's gradient: 13 layers, and the first has no gradient.
  EXPECT_EQ(copies_in(test::predicted("h200-more/vgg16", {"channels-last"}).graph).kernels, 3 * (13 + 12));
  // They do not count as another run of their operation.
  const Prediction once = test::predicted("h200-more/vgg16", {"tf32", "batch:x=2"});
  const Prediction other = test::predicted("h200-more/vgg16", {"batch:x=2", "tf32"});
  EXPECT_EQ(copies_in(once.graph).kernels, copies_in(other.graph).kernels);
  EXPECT_NEAR(static_cast<double>(once.gpu_time) / static_cast<double>(other.gpu_time), 1, 0.05);
}

}  // namespace
}  // namespace foretrace::whatif
