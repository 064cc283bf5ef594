// What libraries choose, each rule by a case on either side of it.
#include <gtest/gtest.h>

#include "hardware/choice/chooser.hpp"

namespace foretrace::hardware {
namespace {

Work convolution(Family pass, Dtype dtype, bool channels_last = false, std::int64_t groups = 1) {
  Work w(pass);
  w.dtype = w.out_dtype = dtype;
  Convolution c;
  c.input = {32, 64, 56, 56};
  c.out_channels = 128;
  c.kernel_h = c.kernel_w = 3;
  c.out_h = c.out_w = 56;
  c.groups = groups;
  c.channels_last = channels_last;
  w.kind = c;
  return w;
}

TEST(Chooser, WinogradIsForThreeByThreeWithoutGaps) {
  const auto can = [](auto change) {
    Convolution c = std::get<Convolution>(convolution(Family::kConvForward, Dtype::kFp32).kind);
    change(c);
    return winograd_can_do(c);
  };
  EXPECT_TRUE(can([](Convolution&) {}));
  EXPECT_FALSE(can([](Convolution& c) { c.stride = 2; }));
  EXPECT_FALSE(can([](Convolution& c) { c.dilation = 2; }));
  EXPECT_FALSE(can([](Convolution& c) { c.kernel_h = 5; }));
  EXPECT_FALSE(can([](Convolution& c) { c.groups = 2; }));
  EXPECT_FALSE(can([](Convolution& c) { c.dimensions = 3; }));
}

TEST(Chooser, TensorsAreCopiedAsTheDeviceAsksForIt) {
  const Work half = convolution(Family::kConvForward, Dtype::kFp16);
  const Device h200 = *find_device("H200-SXM");
  EXPECT_EQ(layout_changes(half, h200).size(), layout_changes(half).size());
  // Kernels of the A100 write NCHW themselves, and those of a P4, without tensor cores, read it too.
  for (const LayoutChange& change : layout_changes(half, *find_device("A100-SXM4-80GB"))) EXPECT_FALSE(change.result);
  EXPECT_EQ(layout_changes(half, *find_device("A100-SXM4-80GB")).size(), layout_changes(half).size() - 1);
  EXPECT_TRUE(layout_changes(half, *find_device("P4")).empty());
  // A kernel on tensor cores reads channels last, a strict one what there is.
  EXPECT_TRUE(channels_last(in_kernel_layout(half)));
  EXPECT_FALSE(channels_last(in_kernel_layout(convolution(Family::kConvForward, Dtype::kFp32))));
}

TEST(Chooser, AutotuningKeepsTheDirectKernelWhereItEndsFirst) {
  Work grouped = convolution(Family::kConvForward, Dtype::kBf16, false, 4);
  EXPECT_FALSE(tries_direct_kernel(grouped));
  std::get<Convolution>(grouped.kind).tuned = true;
  EXPECT_TRUE(tries_direct_kernel(grouped));
  grouped.family = Family::kConvWeightGrad;
  EXPECT_FALSE(tries_direct_kernel(grouped));
  EXPECT_TRUE(keeps_direct_kernel(1001, 100, 10));
  EXPECT_FALSE(keeps_direct_kernel(999, 100, 10));
  EXPECT_FALSE(keeps_direct_kernel(1001, 0, 10));
}

TEST(Chooser, RecurrentWeightsStayOnChipAsPyTorchAsksForIt) {
  using enum RecurrentKernel;
  const auto kernel = [](const Recurrent& r, Dtype dtype, bool backward) {
    Work w(Family::kRnn);
    w.dtype = dtype;
    w.backward = backward;
    return recurrent_kernel(w, r);
  };
  const auto of_units = [&](std::int64_t hidden, std::int64_t gates, Dtype dtype, bool backward) {
    return kernel({20, 35, 128, hidden, 2, 1, gates}, dtype, backward);
  };
  EXPECT_EQ(of_units(128, 4, Dtype::kFp32, false), kKept);
  EXPECT_EQ(of_units(192, 4, Dtype::kFp32, false), kKept);
  EXPECT_EQ(of_units(193, 4, Dtype::kFp32, false), kByStep);
  EXPECT_EQ(of_units(192, 4, Dtype::kFp32, true), kByStep);
  EXPECT_EQ(of_units(384, 1, Dtype::kFp16, false), kKept);
  EXPECT_EQ(of_units(384, 1, Dtype::kFp16, true), kByStep);
  EXPECT_EQ(of_units(64, 3, Dtype::kBf16, false), kByStep);
  const Recurrent listed{64, 35, 512, 512, 1, 1, 4};
  EXPECT_EQ(kernel(listed, Dtype::kFp16, false), kPersistent);
  EXPECT_EQ(kernel(listed, Dtype::kBf16, false), kByStep);
}

}  // namespace
}  // namespace foretrace::hardware
