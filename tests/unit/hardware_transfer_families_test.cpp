// Every kind of work of a step moves to another GPU by a law of its own.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "hardware/cost_models.hpp"
#include "hardware/cost_norm.hpp"
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

Work batch_norm(std::int64_t n, std::int64_t c, std::int64_t side, Dtype dtype, bool backward) {
  Work w(Family::kBatchNorm);
  w.dtype = w.out_dtype = dtype;
  w.backward = backward;
  w.elements = n * c * side * side;
  const double bytes = static_cast<double>(w.elements * bytes_of(dtype));
  w.bytes_read = backward ? 2 * bytes : bytes;
  w.bytes_written = bytes;
  w.kind = work::BatchNorm{{n, c, side, side}, c, n * side * side, false};
  return w;
}

// cuDNN's block for a channel takes as long however many other channels there are, up to the SMs.
TEST(TransferFamilies, ABlockGoesOverItsChannelAtItsOwnPace) {
  const Device h200 = device("H200-SXM");
  const auto law = [&](std::int64_t n, std::int64_t c, const Device& d) {
    return channel_norm_us(batch_norm(n, c, 56, Dtype::kFp16, true), Laws::shipped(), d);
  };
  EXPECT_NEAR(law(256, 64, h200) / law(256, 16, h200), 1, 0.1);
  EXPECT_GT(law(256, 1024, h200), 2.5 * law(256, 64, h200));
  EXPECT_EQ(channel_norm_us(batch_norm(256, 64, 56, Dtype::kBf16, true), Laws::shipped(), h200), 0);
  // Beyond the batches that were measured, the time grows with the batch (256 samples and below are in the table).
  const auto predicted = [&](std::int64_t n) {
    return predict(batch_norm(n, 64, 56, Dtype::kFp16, true), h200).ns / static_cast<double>(n);
  };
  EXPECT_NEAR(predicted(1280) / predicted(256), 1, 0.1);
}

// Norms of ResNet-50 with 32 samples in FP32, measured on both (V100: kineto-misc/resnet_v100_ns.json.gz of $FORETRACE_PUBLIC), us.
TEST(TransferFamilies, BatchNormsOfAnH200AsAV100Measured) {
  const Device h200 = device("H200-SXM"), v100 = device("V100-SXM2-16GB");
  struct Measured {
    std::int64_t channels, side;
    bool backward;
    double h200, v100;
  };
  for (const Measured& m : {Measured{64, 56, true, 134, 246},
                            {64, 112, true, 589, 957},
                            {256, 56, true, 191, 795},
                            {64, 56, false, 52.6, 114},
                            {64, 112, false, 235, 461},
                            {256, 56, false, 101, 420}}) {
    const Work w = batch_norm(32, m.channels, m.side, Dtype::kFp32, m.backward);
    const double there =
        transfer(1e3 * m.h200, 1e3 * m.h200, w, KernelShape{m.channels, 512, 32, 0}, h200, v100).ns / 1e3;
    EXPECT_NEAR(there / m.v100, 1, 0.21) << m.channels << " x " << m.side << (m.backward ? " backward" : "");
    EXPECT_NEAR(transfer(1e3 * there, 1e3 * there, w, KernelShape{m.channels, 512, 32, 0}, v100, h200).ns / 1e3, m.h200,
                0.01 * m.h200);
  }
  // A card for games has clocks and SMs, which few channels need, and a fifth of the bandwidth, which they do not.
  const Device card = device("RTX-4090");
  const auto slower = [&](std::int64_t channels) {
    const Work w = batch_norm(256, channels, 56, Dtype::kFp16, true);
    return transfer(1e6, 1e6, w, KernelShape{channels, 512, 32, 0}, h200, card).ns / 1e6;
  };
  EXPECT_LT(slower(32), 1.1);
  EXPECT_GT(slower(2048), 2.5);
}

// An SM that holds fewer threads issues as many instructions: a pool of an H200 follows clocks and SMs to a card of 1,536 threads.
TEST(TransferFamilies, PoolingWithChannelsInnermostFollowsTheSms) {
  const Device h200 = device("H200-SXM"), card = device("RTX-3090");
  Work w(Family::kPooling);
  w.dtype = w.out_dtype = Dtype::kFp16;
  w.backward = true;
  work::Pooling pool;
  pool.input = {512, 64, 112, 112};
  pool.operation = work::Pooling::Operation::kMaximum;
  pool.channels_last = true;
  pool.outputs = 512 * 64 * 56 * 56;
  pool.window = 9;
  w.elements = 512 * 64 * 112 * 112;
  w.bytes_read = 10.0 * static_cast<double>(pool.outputs);
  w.bytes_written = 2.0 * static_cast<double>(w.elements);
  w.kind = pool;
  const double sms = h200.sm_count * h200.clock_mhz / (card.sm_count * card.clock_mhz);
  EXPECT_NEAR(transfer(4.2e6, 4.2e6, w, KernelShape{}, h200, card).ns / 4.2e6, sms, 0.25 * sms);
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
