// The law of convolutions: what must hold whatever its parameters are.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "hardware/cost.hpp"
#include "hardware/law_conv.hpp"
#include "hardware/tables.hpp"

namespace foretrace::hardware {
namespace {

using work::Convolution;

const Device& device(const char* name) {
  static std::map<std::string, Device> seen;
  return seen.try_emplace(name, *find_device(name)).first->second;
}

struct Shape {
  std::int64_t images, channels, edge, out_channels, kernel, stride, groups;
};
constexpr Shape kShapes[] = {{16, 64, 56, 256, 1, 1, 1},   {16, 256, 14, 256, 3, 1, 1}, {8, 3, 224, 64, 7, 2, 1},
                             {32, 128, 28, 128, 3, 1, 32}, {32, 96, 56, 96, 7, 1, 96},  {4, 257, 28, 255, 3, 1, 1}};

Work convolution(const Shape& s, Family family, Dtype dtype, bool channels_last) {
  Work w(family);
  w.dtype = w.out_dtype = dtype;
  Convolution c;
  c.input = {s.images, s.channels, s.edge, s.edge};
  c.out_channels = s.out_channels;
  c.kernel_h = c.kernel_w = s.kernel;
  c.stride = s.stride;
  c.groups = s.groups;
  c.out_h = c.out_w = (s.edge + 2 * (s.kernel / 2) - s.kernel) / s.stride + 1;
  c.channels_last = channels_last;
  w.kind = c;
  refresh(w);
  return w;
}

template <class Check>
void for_all(Check check) {
  for (const Shape& s : kShapes) {
    for (const Family f : {Family::kConvForward, Family::kConvDataGrad, Family::kConvWeightGrad}) {
      for (const Dtype t : {Dtype::kFp32, Dtype::kTf32, Dtype::kFp16, Dtype::kBf16}) {
        for (const bool last : {false, true}) check(s, f, t, last);
      }
    }
  }
}

TEST(LawOfConvolutions, EveryKindHasParameters) {
  for_all([&](const Shape& s, Family f, Dtype t, bool last) {
    const double us = convolution_as_measured_us(convolution(s, f, t, last), Tables::shipped(), device("H200-SXM"));
    EXPECT_GT(us, 0.5);
    EXPECT_LT(us, 1e6);
  });
}

TEST(LawOfConvolutions, GrowsWithTheBatch) {
  for_all([&](Shape s, Family f, Dtype t, bool last) {
    double before = 0;
    for (s.images = 1; s.images <= 512; s.images *= 2) {
      const double us = convolution_us(convolution(s, f, t, last), Tables::shipped(), device("H200-SXM"));
      EXPECT_GE(us, before * 0.999) << s.images;
      before = us;
    }
  });
}

TEST(LawOfConvolutions, ElsewhereItIsTheProductOfThePatches) {
  const Device& a100 = device("A100-SXM4-80GB");
  for_all([&](const Shape& s, Family f, Dtype t, bool last) {
    const Work w = convolution(s, f, t, last);
    if (work::is_depthwise(w)) return;
    EXPECT_DOUBLE_EQ(convolution_us(w, Tables::shipped(), a100), best_product_us(w, TransferWeights::shipped(), a100));
  });
}

TEST(LongFiltersOverGroups, OnlyOddWidthsMayFallBack) {
  const auto in_half = [](std::int64_t channels) {
    Work w(Family::kConvForward);
    w.dtype = w.out_dtype = Dtype::kFp32;
    Convolution c;
    c.dimensions = 1;
    c.input = {4, channels, 1, 499};
    c.out_channels = channels;
    c.kernel_h = 1;
    c.kernel_w = 128;
    c.groups = 16;
    c.out_h = 1;
    c.out_w = 500;
    w.kind = c;
    refresh(w);
    return rescale(10e6, w, with_dtype(w, Dtype::kBf16), device("H200-SXM")).ns / 10e6;
  };
  EXPECT_GT(in_half(768), 1);     // 48 channels to a group
  EXPECT_LT(in_half(1024), 0.6);  // 64: on tensor cores
}

TEST(LawOfConvolutions, SaysNothingOfUnknownSizes) {
  Work w = convolution(kShapes[1], Family::kConvForward, Dtype::kFp32, false);
  std::get<Convolution>(w.kind).out_channels = 0;
  EXPECT_EQ(convolution_us(w, Tables::shipped(), device("H200-SXM")), 0);
  EXPECT_EQ(convolution_us(work::gemm_work(1, 64, 64, 64, Dtype::kFp32), Tables::shipped(), device("H200-SXM")), 0);
}

}  // namespace
}  // namespace foretrace::hardware
