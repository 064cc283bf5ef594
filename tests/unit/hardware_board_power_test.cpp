// What boards hold: clocks at the power limit, memory as drivers report it, and how sure steps on other GPUs are.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foretrace/hardware/device.hpp"
#include "hardware/board_power.hpp"
#include "hardware/cost.hpp"
#include "hardware/cost_attention.hpp"
#include "hardware/cost_product.hpp"
#include "hardware/learnt.hpp"
#include "hardware/spreads.hpp"
#include "hardware/tables.hpp"

namespace foretrace::hardware {
namespace {

using work::Dtype;

Device named(const char* name) {
  Result<Device> d = find_device(name);
  EXPECT_TRUE(d.has_value()) << name;
  return *d;
}

double large_product_tflops(const Device& d, Dtype dtype) {
  const double n = 10240;
  const Work w = work::gemm_work(1, 10240, 10240, 10240, dtype);
  return 2 * n * n * n / best_product_us(w, TransferWeights::shipped(), d) / 1e6;
}

// GeForce cards run above the clock of their specification: what they reach is no error.
TEST(BoardPower, NoBoundIsBelowWhatABoardWasSeenToReach) {
  const Device card = named("RTX-3080");
  ASSERT_GT(card.sustained_tf32, 1);
  EXPECT_EQ(highest_clock(Dtype::kTf32, card), card.sustained_tf32);
  EXPECT_EQ(highest_clock(Dtype::kFp32, card), 1)
      << "its FP32 products hold less than the rated clock, single kernels may not";
  const Work w = work::gemm_work(1, 8192, 8192, 8192, Dtype::kTf32);
  EXPECT_NEAR(roofline_ns(w, card) / 1e3, w.flops / (card.tflops(Dtype::kTf32) * card.sustained_tf32 * 1e6), 1);
}

TEST(BoardPower, HalfTheLimitLeavesMoreThanHalfTheClock) {
  Device d = named("L40S");
  const double full = clock_share(Dtype::kBf16, 300, d);
  EXPECT_LT(full, 1);
  d.power_w /= 2;
  const double half = clock_share(Dtype::kBf16, 300, d);
  EXPECT_GT(half, full / 2);
  EXPECT_LT(half, full);
}

TEST(BoardPower, NeverFallsWithTheLimitAndNeverDoesLessForMore) {
  for (const Device& d : devices()) {
    for (const Dtype dtype : {Dtype::kFp32, Dtype::kTf32, Dtype::kBf16, Dtype::kFp8}) {
      double last_rate = 0;
      for (double tflops = 1; tflops < 4096; tflops *= 2) {
        const double rate = tflops * clock_at_limit(dtype, tflops, d);
        EXPECT_GE(rate, last_rate) << d.name;
        last_rate = rate;
      }
      double last = 0;
      for (Device board = d; board.power_w > 0 && board.power_w < 3000; board.power_w *= 1.3) {
        const double share = clock_at_limit(dtype, d.tflops(dtype), board);
        EXPECT_GE(share, last) << d.name;
        EXPECT_LE(share, 1) << d.name;
        last = share;
      }
    }
  }
}

TEST(BoardPower, WithoutALimitTheRatedClockIsHeld) {
  Device d = named("H100-SXM5");
  d.power_w = 0;
  EXPECT_EQ(clock_share(Dtype::kBf16, 1e6, d), 1);
}

TEST(BoardPower, AMeasuredShareWinsAndMovesWithTheLimit) {
  Device d = named("H100-SXM5");
  d.sustained_half = 0.5;
  EXPECT_EQ(clock_share(Dtype::kBf16, 900, d), 0.5);
  EXPECT_NE(clock_at_limit(Dtype::kBf16, 900, d), 0.5);
  const Device hot = with_power(d, 1.5);
  EXPECT_EQ(hot.power_w, 1.5 * d.power_w);
  EXPECT_GT(hot.sustained_half, 0.5);
  EXPECT_LE(hot.sustained_half, 1);
  // A card above its rated clock is not held back: more power changes nothing.
  d.sustained_half = 1.1;
  EXPECT_EQ(with_power(d, 4).sustained_half, 1.1);
  const double before = large_product_tflops(named("H100-SXM5"), Dtype::kFp32);
  d.sustained_fp32 = 0.5;
  EXPECT_NEAR(large_product_tflops(d, Dtype::kFp32) / before, 0.5, 0.1);
}

// Boards of one chip, in the order of what they may draw; measured figures of torch.matmul are in data/published/products.csv.
TEST(BoardPower, BoardsOfLessPowerComeOutWhereTheyWereMeasured) {
  EXPECT_NEAR(large_product_tflops(named("L4"), Dtype::kBf16), 57, 6);
  EXPECT_NEAR(large_product_tflops(named("L4"), Dtype::kFp32), 11, 1.2);
  EXPECT_NEAR(large_product_tflops(named("H100-PCIe"), Dtype::kBf16), 480, 40);
  EXPECT_LT(large_product_tflops(named("RTX-6000-Ada"), Dtype::kBf16),
            large_product_tflops(named("L40S"), Dtype::kBf16));
  EXPECT_GT(large_product_tflops(named("GB300"), Dtype::kBf16),
            1.05 * large_product_tflops(named("GB200"), Dtype::kBf16));
  EXPECT_LT(large_product_tflops(named("GH200"), Dtype::kTf32), large_product_tflops(named("H100-SXM5"), Dtype::kTf32));
  // Not measured: the energy of the architecture and the limit say it.
  EXPECT_NEAR(large_product_tflops(named("RTX-A6000"), Dtype::kBf16), 122, 10);
}

TEST(ReportedMemory, IsWhatDriversSay) {
  EXPECT_NEAR(named("H100-SXM5").reported_gb, 85.0, 0.1);
  EXPECT_NEAR(named("V100-SXM2-32GB").reported_gb, 34.08, 0.01);
  EXPECT_NEAR(named("B200").reported_gb, 191.5, 0.1);
  EXPECT_NEAR(named("T4").reported_gb, 15.84, 0.01);  // ECC takes a part of GDDR6
  for (const Device& d : devices()) {
    EXPECT_GE(d.reported_gb, 0.91 * d.memory_gb * 1.073741824) << d.name;
    EXPECT_LE(d.reported_gb, 1.0001 * d.memory_gb * 1.073741824) << d.name;
  }
}

TEST(Amd, OneDieOfAnMi250xIsADevice) {
  const Device d = named("MI250X");
  EXPECT_EQ(d.sm_count, 110);
  EXPECT_NEAR(d.tflops(Dtype::kBf16), 191.5, 0.1);
  EXPECT_NEAR(d.bandwidth_gbs, 1638.4, 0.1);
}

TEST(Amd, ProductsReachWhatIsPublished) {
  EXPECT_NEAR(large_product_tflops(named("MI300X"), Dtype::kBf16), 668, 90);
  EXPECT_NEAR(large_product_tflops(named("MI350X"), Dtype::kBf16), 1117, 120);
  EXPECT_LT(large_product_tflops(named("MI300X"), Dtype::kBf16), large_product_tflops(named("H200-SXM"), Dtype::kBf16));
}

TEST(Amd, AttentionHasKernelsOfItsOwn) {
  const Laws& laws = Tables::shipped().laws();
  const Work w = work::attention_work(16, 16, 4096, 4096, 128, Dtype::kBf16, false, true);
  const auto& a = std::get<work::Attention>(w.kind);
  const Device h100 = named("H100-SXM5"), mi300x = named("MI300X");
  EXPECT_NEAR(attention_us(w, a, laws, mi300x), 4278, 900);  // attn-dsl-bench
  EXPECT_NEAR(attention_ratio(w, a, laws, h100, mi300x),
              attention_us(w, a, laws, mi300x) / attention_us(w, a, laws, h100), 1e-9);
  EXPECT_GT(attention_ratio(w, a, laws, h100, mi300x), 1.2);
}

TEST(Learnt, LessKnownIsNeverSurer) {
  EXPECT_EQ(learnt_of(named("H100-SXM5"), true), Learnt::kDevice);
  EXPECT_EQ(learnt_of(named("Quadro-RTX-8000"), true), Learnt::kArchitecture);
  EXPECT_EQ(learnt_of(named("RTX-4090"), true), Learnt::kGeForce);
  EXPECT_EQ(learnt_of(named("RTX-3090"), false), Learnt::kArchitecture);
  EXPECT_EQ(learnt_of(named("MI300X"), true), Learnt::kVendor);
  for (const bool half : {false, true}) {
    const double device = learnt_spread(named("H100-SXM5"), half),
                 other = learnt_spread(named(half ? "Quadro-RTX-8000" : "RTX-A6000"), half);
    EXPECT_GT(device, 0);
    EXPECT_GE(other, device);
    EXPECT_GE(learnt_spread(named("MI300X"), half), spreads().unmeasured);
  }
  EXPECT_GE(learnt_spread(named("RTX-4090"), true), learnt_spread(named("Quadro-RTX-8000"), true));
}

}  // namespace
}  // namespace foretrace::hardware
