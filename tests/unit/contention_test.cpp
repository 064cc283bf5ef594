// What kernels lose during a collective follows from their grids: the measured cases of tools/measure/parallel/contention.py on a part of
// 66 SMs.

#include "hardware/contention.hpp"

#include <gtest/gtest.h>

namespace foretrace::hardware {
namespace {

Device part_of_a_gpu() {
  Device d;
  d.sm_count = 66;
  return d;
}

TEST(Contention, ReadsTheClusterOfAName) {
  EXPECT_EQ(cluster_blocks("nvjet_sm90_tst_128x192_64x5_4x2_h_bz_coopB_NTN"), 8);
  EXPECT_EQ(cluster_blocks("nvjet_sm90_tst_192x192_64x3_1x2_h_bz_coopB_NNN"), 2);
  EXPECT_EQ(cluster_blocks("cutlass3x_sm90_tensorop_gemm_f16_128x256x64_2x1x1_0_tnn"), 2);
  EXPECT_EQ(cluster_blocks("vectorized_elementwise_kernel_4x2_8x8_2x2"), 1);
}

TEST(Contention, AProductOfOneTurnTakesTwo) {
  // 2048 x 1024 in tiles of 128 x 256: 64 tiles for 64 blocks. Measured: 1.74 times as long.
  const LaunchedKernel product{"nvjet_sm90_tst_128x256_64x4_4x2_h_bz_coopA_TNN", 64, 2048, 1024, 48.6, 0};
  EXPECT_DOUBLE_EQ(speed_during_collective(product, part_of_a_gpu(), 4), 0.5);
  LaunchedKernel with_begin = product;
  with_begin.begin_us = 4.86;  // a tenth
  EXPECT_NEAR(1 / speed_during_collective(with_begin, part_of_a_gpu(), 4), 1.9, 1e-9);
}

TEST(Contention, AProductOfManyTurnsLosesAPart) {
  // 8192 x 8192 in tiles of 320 x 128: 1664 tiles, 26 turns of 64 blocks, 30 of 56 (a cluster of eight found no room).
  const LaunchedKernel product{"nvjet_sm90_tst_320x128_64x3_2x4_h_bz_coopB_TNT", 64, 8192, 8192, 391, 0};
  EXPECT_DOUBLE_EQ(speed_during_collective(product, part_of_a_gpu(), 2), 26.0 / 30.0);
}

TEST(Contention, StreamingKernelsLoseTheSmsAlone) {
  const LaunchedKernel add{"vectorized_elementwise_kernel", 32768, 0, 0, 88.8, 2};
  EXPECT_NEAR(speed_during_collective(add, part_of_a_gpu(), 4), 62.0 / 66.0, 0.002);
  const LaunchedKernel attention{"sdpa_sm90_flash_fprop", 66, 0, 0, 103, 2};
  EXPECT_DOUBLE_EQ(speed_during_collective(attention, part_of_a_gpu(), 4), 62.0 / 66.0);
}

TEST(Contention, SmallGridsLoseNothing) {
  const LaunchedKernel small{"reduce_kernel", 32, 0, 0, 10, 2};
  EXPECT_DOUBLE_EQ(speed_during_collective(small, part_of_a_gpu(), 4), 1);
  EXPECT_DOUBLE_EQ(speed_during_collective(small, part_of_a_gpu(), 0), 1);
}

}  // namespace
}  // namespace foretrace::hardware
