// Every kind of work of a step moves to another GPU by a law of its own.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "hardware/cost_models.hpp"
#include "hardware/cost_recurrent.hpp"
#include "hardware/transfer.hpp"

namespace foretrace::hardware {
namespace {

Device device(const char* name) { return *find_device(name); }

Work convolution(Family family) {
  Work w(family);
  w.kind = Convolution{{32, 64, 56, 56}, 64, 3, 3, 1, 1, 56, 56};
  refresh(w);
  return w;
}

Work lstm(std::int64_t batch, std::int64_t steps, std::int64_t hidden, Dtype dtype, bool backward = false) {
  Work w(Family::kRnn);
  w.kind = Recurrent{batch, steps, hidden, hidden, 1, 1, 4};
  w.dtype = w.out_dtype = dtype;
  w.backward = backward;
  w.flops = 2.0 * static_cast<double>(batch * steps) * 8.0 * static_cast<double>(hidden * hidden);
  w.bytes_read = w.bytes_written = 4.0 * static_cast<double>(batch * steps * hidden);
  return w;
}

Work typical(Family family) {
  switch (family) {
    case Family::kGemm:
      return work::gemm_work(1, 2048, 1024, 1024, Dtype::kFp32);
    case Family::kConvForward:
    case Family::kConvDataGrad:
    case Family::kConvWeightGrad:
      return convolution(family);
    case Family::kAttention:
      return work::attention_work(8, 16, 512, 512, 64, Dtype::kFp16, false);
    case Family::kRnn:
      return lstm(64, 50, 1024, Dtype::kFp32);
    default: {
      Work w(family);
      w.bytes_read = w.bytes_written = 50e6;
      w.elements = 12'500'000;
      return w;
    }
  }
}

// Winograd in FP32 is as good an algorithm where TF32 is allowed: cards that multiply TF32 no faster than FP32 are not bound by that rate.
TEST(Roofline, ATf32ConvolutionIsNoSlowerThanItsFp32Algorithms) {
  const Device card = device("RTX-3090"), server = device("H200-SXM");
  Work strict = convolution(Family::kConvForward), tf32 = strict;
  tf32.dtype = tf32.out_dtype = Dtype::kTf32;
  EXPECT_EQ(roofline_ns(tf32, card), roofline_ns(strict, card));
  EXPECT_LT(roofline_ns(tf32, server), roofline_ns(strict, server));
}

TEST(TransferFamilies, NoneStaysAsItWasMeasured) {
  const Device from = device("H200-SXM");
  for (const char* to : {"T4", "V100-SXM2-16GB", "A100-SXM4-80GB", "L4", "MI210"}) {
    const Device target = device(to);
    for (std::size_t f = 0; f < work::kFamilies; ++f) {
      const auto family = static_cast<Family>(f);
      if (family == Family::kCommunication) continue;  // follows the nodes' links: whatif/catalogue/moved_collectives
      for (const Work& w : {typical(family), Work(family)}) {
        const std::string what =
            std::string(work::to_string(family)) + (w.has_shape() ? " to " : " without sizes, to ") + to;
        const Cost cost = transfer(200e3, 200e3, w, {4096, 256, 32, 0}, from, target);
        ASSERT_TRUE(cost.known) << what;
        const double least = target.vendor == "nvidia" ? 1.15 : 0.5;  // NVIDIA's here are slower in every figure
        EXPECT_GT(cost.ns, least * 200e3) << what;
        EXPECT_NE(cost.ns, 200e3) << what;
        EXPECT_GT(cost.sigma, 0) << what;
      }
    }
  }
}

TEST(TransferFamilies, Bf16WhereThereIsNoneIsSlowerThanFp32) {
  const auto us = [](Dtype dtype, const char* on) {
    return best_product_us(work::gemm_work(1, 4096, 4096, 4096, dtype), TransferWeights::shipped(), device(on));
  };
  for (const char* name : {"V100-SXM2-16GB", "T4", "P100-PCIe-16GB", "P4"}) {
    EXPECT_GT(us(Dtype::kBf16, name), 1.3 * us(Dtype::kFp32, name)) << name;
    EXPECT_LE(us(Dtype::kFp16, name), us(Dtype::kFp32, name) * 1.001) << name;
  }
  EXPECT_LT(us(Dtype::kBf16, "A100-SXM4-80GB"), us(Dtype::kFp32, "A100-SXM4-80GB"));
}

TEST(TransferFamilies, CopiesFromTheHostFollowTheLink) {
  const Cost there =
      transfer(1e6, 1e6, work::memory_work(50'000'000, true), {}, device("H200-SXM"), device("A100-SXM4-80GB"));
  EXPECT_NEAR(there.ns, 2e6, 0.02e6);  // PCIe 5 against 4
}

TEST(TransferFamilies, RecurrentStepsWaitAndProductsCompute) {
  const Device h200 = device("H200-SXM");
  const Device t4 = device("T4");
  const double peaks = h200.tflops_fp32 / t4.tflops_fp32;
  const auto ratio = [&](const Work& w) { return transfer(1e7, 1e7, w, {}, h200, t4).ns / 1e7; };
  const double waits = ratio(lstm(2, 400, 128, Dtype::kFp32));
  const double computes = ratio(lstm(512, 20, 2048, Dtype::kFp32));
  EXPECT_LT(waits, 0.4 * peaks);
  EXPECT_GT(waits, 1.0);
  EXPECT_GT(computes, 1.5 * waits);
  EXPECT_LT(computes, 2.5 * peaks);  // 70 W hold a T4 to less than half of its peak
}

TEST(TransferFamilies, RecurrentTimesGrowWithEverySize) {
  const Device d = device("A100-SXM4-80GB");
  const auto us = [&](const Work& w) {
    return recurrent_us(w, std::get<Recurrent>(w.kind), TransferWeights::shipped(), Laws::shipped(), d);
  };
  for (const bool backward : {false, true}) {
    for (const Dtype dtype : {Dtype::kFp32, Dtype::kTf32, Dtype::kFp16}) {
      const double one = us(lstm(16, 20, 256, dtype, backward));
      EXPECT_GT(one, 0);
      // Steps add up; the beginning of a kernel that keeps its weights does not.
      EXPECT_GT(us(lstm(16, 40, 256, dtype, backward)), 1.4 * one);
      EXPECT_LT(us(lstm(16, 40, 256, dtype, backward)), 2.1 * one);
      EXPECT_GE(us(lstm(64, 20, 256, dtype, backward)), one);
      EXPECT_GE(us(lstm(16, 20, 512, dtype, backward)), one);
    }
  }
  Work unknown(Family::kRnn);
  EXPECT_EQ(us(unknown), 0);
}

TEST(TransferFamilies, RecurrentTimesNeverGrowWithABetterDevice) {
  for (const char* name : {"V100-SXM2-16GB", "A100-SXM4-80GB", "RTX-3090", "H20", "B200"}) {
    const Device d = device(name);
    for (double Device::* figure : {&Device::clock_mhz, &Device::bandwidth_gbs, &Device::l2_mb, &Device::tflops_fp32,
                                    &Device::tflops_tf32, &Device::tflops_fp16, &Device::power_w}) {
      Device better = d;
      better.*figure *= 1.3;
      for (const Dtype dtype : {Dtype::kFp32, Dtype::kTf32, Dtype::kFp16}) {
        const Work w = lstm(64, 30, 512, dtype);
        const auto us = [&](const Device& on) {
          return recurrent_us(w, std::get<Recurrent>(w.kind), TransferWeights::shipped(), Laws::shipped(), on);
        };
        EXPECT_LE(us(better), us(d) * (1 + 1e-9)) << name;
      }
    }
  }
}

// A convolution in NCHW on tensor cores costs the copies of the GPU it goes to: operands alone where its kernels write NCHW, the result too elsewhere, and
// none without tensor cores.
TEST(TransferFamilies, ConvolutionsPayForTheCopiesOfTheirGpu) {
  const Device h200 = device("H200-SXM");
  Work first(Family::kConvForward);
  auto& c = std::get<work::Convolution>(first.kind);
  c.input = {128, 64, 56, 56};
  c.out_channels = 64, c.kernel_h = c.kernel_w = 3, c.out_h = c.out_w = 56;
  first = with_dtype(first, Dtype::kFp16);
  refresh(first);
  const Work last = with_layout(first, true);
  const auto extra = [&](const char* name) {
    const auto moved = [&](const Work& w) {
      const double here = predict(w, h200).ns;
      return transfer(here, here, w, {}, h200, device(name)).ns;
    };
    return moved(first) - moved(last);
  };
  const auto copy = [&](const char* name) {
    return predict(work::relayout_work(128 * 64 * 56 * 56, Dtype::kFp16), device(name)).ns;
  };
  for (const char* writes_nchw : {"A100-SXM4-80GB", "RTX-3090", "RTX-4090", "RTX-5090"}) {
    EXPECT_NEAR(extra(writes_nchw) / copy(writes_nchw), 1, 0.4) << writes_nchw;
  }
  for (const char* copies_back : {"V100-SXM2-32GB", "T4", "H100-SXM5"}) {
    EXPECT_NEAR(extra(copies_back) / copy(copies_back), 2, 0.5) << copies_back;
  }
}

// Twice the lanes issue no more instructions.
TEST(TransferFamilies, WideSmsGainLessThanTheirPeak) {
  const Device h200 = device("H200-SXM");
  const Device a100 = device("A100-SXM4-80GB");
  const KernelShape full{100000, 256, 32, 0};
  const double ratio = (same_kernel_us(1001, 1e3, full, h200, a100) - 1) / 1000;
  const double clocks = h200.sm_count * h200.clock_mhz / (a100.sm_count * a100.clock_mhz);
  EXPECT_GT(ratio, clocks);
  EXPECT_LT(ratio, 0.8 * h200.tflops_fp32 / a100.tflops_fp32);
  // Between two wide ones the peaks count, and between two narrow ones.
  const Device l4 = device("L4");
  EXPECT_NEAR((same_kernel_us(1001, 1e3, full, h200, l4) - 1) / 1000, h200.tflops_fp32 / l4.tflops_fp32, 0.02);
}

}  // namespace
}  // namespace foretrace::hardware
