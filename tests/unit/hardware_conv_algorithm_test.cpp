// How convolutions are computed and the scratch memory they take: by the names of kernels, by law, and as the batch changes.

#include <gtest/gtest.h>

#include "foretrace/memory/memory.hpp"
#include "hardware/choice/conv_algorithm.hpp"
#include "measured_step.hpp"
#include "whatif/rewrite/workspaces.hpp"

namespace foretrace::hardware {
namespace {

using Method = ConvAlgorithm::Method;
using work::Convolution;
using work::Dtype;
using work::Family;
using work::Work;

struct Layer {
  std::int64_t images, channels, edge, out_channels, kernel, groups = 1;
};

Work convolution(Family family, const Layer& l, bool channels_last = false, Dtype dtype = Dtype::kFp32) {
  Work w(family);
  w.dtype = w.out_dtype = dtype;
  w.kind = Convolution{.input = {l.images, l.channels, l.edge, l.edge},
                       .out_channels = l.out_channels,
                       .kernel_h = l.kernel,
                       .kernel_w = l.kernel,
                       .groups = l.groups,
                       .out_h = l.edge,
                       .out_w = l.edge,
                       .channels_last = channels_last};
  return w;
}

constexpr ConvAlgorithm kProduct{};
constexpr ConvAlgorithm kWinograd{Method::kWinograd, 0};
constexpr ConvAlgorithm fourier(std::int64_t edge) { return {Method::kFourier, edge}; }
constexpr ConvAlgorithm tiles(std::int64_t edge) { return {Method::kFourierTiles, edge}; }

ConvAlgorithm named(std::vector<std::string_view> kernels) { return algorithm_of_kernels(kernels); }

TEST(ConvAlgorithm, IsToldByTheNamesOfItsKernels) {
  EXPECT_EQ(named({}), kProduct);
  EXPECT_EQ(named({"sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize128x32x8"}), kProduct);
  EXPECT_EQ(named({"void fft2d_r2c_32x32<float, false, 0u, false>(float2*)", "cgemm", "void fft2d_c2r_32x32<float>"}),
            tiles(32));
  EXPECT_EQ(named({"void flip_filter<float, float>(float*)", "void fft2d_r2c_16x16<float>(float2*)"}), fourier(16));
  EXPECT_EQ(named({"void cudnn::winograd_nonfused::winogradWgradData4x4<float, float>(…)"}), kWinograd);
  EXPECT_EQ(named({"void cudnn::winograd_nonfused::winogradWgradData9x9_5x5<float, float>(…)"}).method,
            Method::kUnknown);
  EXPECT_EQ(named({"void DSE::vector_fft<0, 1, 128, 8>(float2*)"}).method, Method::kUnknown);
}

// What was allocated on an H200 for these shapes (data/h200-operations); the allocator rounds up.
TEST(ConvAlgorithm, ScratchMemoryIsWhatWasMeasured) {
  const auto expect = [](std::int64_t measured, const Work& w, const ConvAlgorithm& by) {
    memory::Block block;
    block.bytes = measured;
    EXPECT_TRUE(memory::could_hold(block, scratch_bytes(w, by).value())) << measured << " " << *scratch_bytes(w, by);
  };
  expect(35651584, convolution(Family::kConvDataGrad, {16, 64, 56, 64, 3}), tiles(32));
  expect(58720256, convolution(Family::kConvWeightGrad, {16, 64, 56, 64, 3}), kWinograd);
  expect(657 << 20, convolution(Family::kConvForward, {64, 512, 14, 512, 3}), fourier(16));
  expect(191102976, convolution(Family::kConvForward, {64, 256, 14, 256, 3}),
         fourier(16));  // layer3 of a ResNet-18's step
  EXPECT_EQ(scratch_bytes(convolution(Family::kConvForward, {64, 256, 14, 256, 3}), kProduct), 0);
}

TEST(ConvAlgorithm, OnlyAPartFollowsTheBatch) {
  const auto bytes = [](std::int64_t images) {
    return static_cast<double>(
        *scratch_bytes(convolution(Family::kConvForward, {images, 256, 14, 256, 3}), fourier(16)));
  };
  EXPECT_LT(bytes(64) / bytes(32), 1.2);
  EXPECT_NEAR((bytes(256) - bytes(128)) / (bytes(128) - bytes(64)), 2, 1e-9);
}

TEST(ConvAlgorithm, TransformsWorkInNchwAndOnEightGroupsAtATime) {
  const Layer layer{8, 256, 28, 256, 3};
  const auto bytes = [](const Layer& l, bool last) {
    return *scratch_bytes(convolution(Family::kConvWeightGrad, l, last), kWinograd);
  };
  EXPECT_EQ(bytes(layer, true) - bytes(layer, false), 4 * (2 * 8 * 256 * 28 * 28 + 256 * 256 * 9));
  const std::int64_t eight = bytes({8, 256, 28, 256, 3, 8}, false);
  EXPECT_NEAR(static_cast<double>(bytes({8, 1024, 28, 1024, 3, 32}, false)), static_cast<double>(eight),
              0.01 * static_cast<double>(eight));
}

TEST(ConvAlgorithm, ChangesWithTheBatchWhereItWasMeasured) {
  // 256 channels at 14 x 14: cuDNN's heuristic takes Fourier transforms from 64 images on.
  const Work small = convolution(Family::kConvForward, {32, 256, 14, 256, 3});
  const Work large = convolution(Family::kConvForward, {64, 256, 14, 256, 3});
  EXPECT_EQ(chosen_algorithm(large, small, kProduct), fourier(16));
  EXPECT_EQ(chosen_algorithm(small, large, fourier(16)), kProduct);
  // What ran is not what the table says: another library, which may choose otherwise again.
  EXPECT_EQ(chosen_algorithm(large, small, fourier(32)), fourier(32));
  // It tried its algorithms, and would again.
  Work tried = small;
  std::get<Convolution>(tried.kind).tuned = true;
  EXPECT_EQ(chosen_algorithm(tried, tried, kProduct), kProduct);
  EXPECT_EQ(chosen_algorithm(tried, tried, fourier(16)), fourier(16));
  // A layer nobody measured keeps what it ran by, in its own type.
  const Work odd = convolution(Family::kConvForward, {32, 250, 15, 130, 3});
  const Work odd_twice = convolution(Family::kConvForward, {64, 250, 15, 130, 3});
  EXPECT_EQ(chosen_algorithm(odd_twice, odd, tiles(32)), tiles(32));
  EXPECT_EQ(chosen_algorithm(with_dtype(odd, Dtype::kFp16), odd, tiles(32)), kProduct);
  EXPECT_EQ(chosen_algorithm(with_dtype(odd, Dtype::kTf32), odd, tiles(32)), kProduct);
}

// Backward of 128 channels at 16 x 16, channels last: the data gradient copies its tensors at any batch, the weight gradient takes Winograd's
// transforms from eight images on.
TEST(Workspaces, OfAnOperationTheLargestPartCounts) {
  const Layer layer{4, 128, 16, 128, 3};
  whatif::Model step;
  for (const Family pass : {Family::kConvDataGrad, Family::kConvWeightGrad}) {
    Work w = convolution(pass, layer, true);
    w.op_event = 5;
    step.works.add(w);
  }
  memory::Block copies;
  copies.bytes = scratch_bytes(step.works[0], kProduct).value();
  copies.allocated = 1;
  copies.freed = 2;
  copies.op = 5;
  step.memory.emplace().blocks = {copies};
  step.memory->positions = 2;
  Layer twice = layer;
  twice.images = 8;
  EXPECT_EQ(memory::peak(whatif::BatchMemory(step).at(1)).bytes, copies.bytes);
  EXPECT_EQ(memory::peak(whatif::BatchMemory(step).at(2)).bytes,
            scratch_bytes(convolution(Family::kConvWeightGrad, twice, true), kWinograd).value());
}

// Its peak lies in a convolution by Fourier transforms, of whose 191 MB the filters' part stays. Measured with the other batches:
// data/h200-batches.
TEST(Workspaces, FollowTheirAlgorithmWhenTheBatchChanges) {
  const whatif::Model& step = test::measured_step("h200-clean/resnet18").model;
  const std::pair<const char*, double> measured[] = {
      {"batch:x=0.5", 1057512960}, {"batch:x=2", 3188984832}, {"batch:x=4", 6113988608}};
  for (const auto& [use, peak] : measured) {
    EXPECT_NEAR(static_cast<double>(*test::predicted(step, {use}).peak_bytes) / peak, 1, 0.03) << use;
  }
}

}  // namespace
}  // namespace foretrace::hardware
