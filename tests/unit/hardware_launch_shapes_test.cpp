// How PyTorch cuts work along rows, compared with launches recorded on an H200.

#include <gtest/gtest.h>

#include "hardware/launch_shapes.hpp"

namespace foretrace::hardware {
namespace {

const Device& h200() {
  static const Device kDevice = *find_device("H200-SXM");
  return kDevice;
}

TEST(LaunchShapes, SumsAlongRowsHaveABlockForSeveralShortOnes) {
  const ReductionShape s = reduction_shape(65536, 64, true, h200());
  EXPECT_EQ(s.parts, 1);
  EXPECT_EQ(s.values * s.lanes, 64);
  EXPECT_GT(s.blocks, s.resident);
}

TEST(LaunchShapes, FewSumsOfManyValuesAreSharedByBlocks) {
  const ReductionShape one = reduction_shape(1, 100'000'000, true, h200());
  EXPECT_GT(one.parts, 100);
  EXPECT_EQ(one.blocks, one.parts);
  const ReductionShape columns = reduction_shape(768, 16384, false, h200());
  EXPECT_EQ(columns.vector, 4);
  EXPECT_GT(columns.parts, 1);
  // Odd numbers of columns are not taken four at a time.
  EXPECT_EQ(reduction_shape(769, 16384, false, h200()).vector, 1);
}

TEST(LaunchShapes, PrefixSums) {
  const ScanShape few = scan_shape(4, 1536, h200());
  EXPECT_EQ(few.lanes, 512);
  EXPECT_EQ(few.blocks, 4);
  EXPECT_EQ(few.steps, 2);
  const ScanShape many = scan_shape(81728, 1000, h200());
  EXPECT_EQ(many.lanes, 16);
  EXPECT_EQ(many.blocks, 2554);
  EXPECT_EQ(many.steps, 32);
}

TEST(LaunchShapes, LargestOfRows) {
  EXPECT_TRUE(many_blocks_topk(128, 5000));
  EXPECT_FALSE(many_blocks_topk(56, 5000));
  EXPECT_FALSE(many_blocks_topk(2336, 577));
  EXPECT_TRUE(many_blocks_topk(8192, 577));
}

TEST(LaunchShapes, PoolingWithChannelsInnermost) {
  const ChannelsLastShape s = channels_last_shape(2, 320, 14, 14, 8, h200());
  EXPECT_EQ(s.threads, 1024);
  EXPECT_EQ(s.pixels, 4);
  EXPECT_LT(s.waves, 1);
}

TEST(LaunchShapes, SizesNoTensorHasAreNoTrouble) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  for (const std::int64_t a : {std::int64_t{0}, std::int64_t{1}, kHuge}) {
    for (const std::int64_t b : {std::int64_t{0}, std::int64_t{1}, kHuge}) {
      EXPECT_GE(reduction_shape(a, b, true, h200()).blocks, 1);
      EXPECT_GE(reduction_shape(a, b, false, h200()).values, 1);
      EXPECT_GE(scan_shape(a, b, h200()).steps, 1);
      EXPECT_GE(channels_last_shape(a, b, b, b, 8, h200()).waves, 0);
    }
  }
}

}  // namespace
}  // namespace foretrace::hardware
