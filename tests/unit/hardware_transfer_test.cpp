// Carrying measured kernels over to other GPUs: identity, bounds, and what may only move one way.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "hardware/cost_product.hpp"
#include "hardware/spreads.hpp"
#include "hardware/tables.hpp"
#include "hardware/transfer.hpp"

namespace foretrace::hardware {
namespace {

using ::testing::HasSubstr;

Device device(const char* name) { return *find_device(name); }

const std::vector<Device>& nvidia() {
  static const std::vector<Device> kAll = [] {
    std::vector<Device> all;
    for (const Device& d : devices()) {
      if (d.vendor == "nvidia") all.push_back(d);
    }
    return all;
  }();
  return kAll;
}

double product_time(const Work& w, const Device& d) {
  const Product p = product_of(w, d);
  return product_us(p, TransferWeights::shipped().of(p.kind, d), d);
}

rc::Gen<std::int64_t> size() {
  return rc::gen::map(rc::gen::inRange(0, 1300), [](int x) {  // 1 to 8192, evenly in the logarithm
    return static_cast<std::int64_t>(std::pow(2.0, x / 100.0));
  });
}

Work any_product() {
  const auto dtype = *rc::gen::element(Dtype::kFp32, Dtype::kTf32, Dtype::kFp16, Dtype::kBf16);
  return gemm_work(*rc::gen::element<std::int64_t>(1, 1, 12, 96), *size(), *size(), *size(), dtype);
}

RC_GTEST_PROP(Transfer, ProductsGrowWithTheirSizes, ()) {
  const Device d = *rc::gen::elementOf(nvidia());
  const Work w = any_product();
  using work::Gemm;
  for (std::int64_t Gemm::* side : {&Gemm::batch, &Gemm::m, &Gemm::n, &Gemm::k}) {
    // A batch is another kind of product, with its own kernels.
    if (side == &Gemm::batch && std::get<Gemm>(w.kind).batch == 1) continue;
    Work larger = w;
    std::get<Gemm>(larger.kind).*side += *rc::gen::inRange<std::int64_t>(1, 300);
    refresh(larger);
    RC_ASSERT(product_time(larger, d) >= product_time(w, d) * (1 - 1e-12));
  }
}

RC_GTEST_PROP(Transfer, ABetterDeviceIsNeverSlower, ()) {
  const Device d = *rc::gen::elementOf(nvidia());
  const Work w = any_product();
  const double x = 1 + *rc::gen::inRange(1, 300) / 100.0;
  const std::vector<std::function<void(Device&)>> better = {
      [&](Device& b) { b.sm_count = static_cast<int>(std::ceil(b.sm_count * x)); },
      [&](Device& b) { b.clock_mhz *= x; },
      [&](Device& b) { b.bandwidth_gbs *= x; },
      [&](Device& b) { b.l2_mb *= x; },
      [&](Device& b) { b.power_w *= x; },
      [&](Device& b) { b.tflops_fp32 *= x; },
      [&](Device& b) { b.tflops_tf32 *= x; },
      [&](Device& b) { b.tflops_fp16 *= x; },
      [&](Device& b) { b.tflops_bf16 *= x; },
      [&](Device& b) { b.memory_gb *= x; },
  };
  const double before = product_time(w, d);
  for (std::size_t i = 0; i < better.size(); ++i) {
    Device b = d;
    better[i](b);
    RC_ASSERT(product_time(w, b) <= before * (1 + 1e-12));
    // The whole way of a kernel that stays the same, and of one that does not.
    const Device from = *rc::gen::elementOf(nvidia());
    const KernelShape shape{*rc::gen::inRange<std::int64_t>(1, 5000), 256, 32, 0};
    const double us = *rc::gen::inRange(1, 5000);
    const double bytes = *rc::gen::inRange(0, 500) * 1e6;
    RC_ASSERT(same_kernel_us(us, bytes, shape, from, b) <= same_kernel_us(us, bytes, shape, from, d) * (1 + 1e-12));
    Device same = d;
    same.name = "other";
    b.name = "other";
    RC_ASSERT(transfer(1e5, 1e5, w, shape, from, b).ns <= transfer(1e5, 1e5, w, shape, from, same).ns * (1 + 1e-9));
  }
}

RC_GTEST_PROP(Transfer, TheSameDeviceKeepsItsTime, ()) {
  const Device d = *rc::gen::elementOf(nvidia());
  const double ns = *rc::gen::inRange(1, 100000000);
  RC_ASSERT(transfer(ns, ns, any_product(), {}, d, d).ns == ns);
  RC_ASSERT(transfer(ns, ns, elementwise_work(1000, 2, 1, Dtype::kFp32), {}, d, d).ns == ns);
}

RC_GTEST_PROP(Transfer, NeverFasterThanTheRoofline, ()) {
  const Device from = *rc::gen::elementOf(nvidia());
  const Device to = *rc::gen::elementOf(nvidia());
  const Work w = any_product();
  const double ns = std::max<double>(*rc::gen::inRange(1000, 10000000), roofline_ns(w, from));
  const Cost c = transfer(ns, ns, w, {}, from, to);
  RC_ASSERT(c.known);
  RC_ASSERT(std::isfinite(c.ns));
  RC_PRE(from.name != to.name);
  RC_ASSERT(c.ns >= roofline_ns(w, to) * (1 - 1e-12));
}

TEST(Transfer, AStreamingKernelFollowsTheBandwidth) {
  const Device a = device("V100-PCIe-32GB");
  const Device b = device("A100-PCIe-40GB");
  const double bytes = 1e9;
  const double us = 1 + bytes / (a.streaming_gbs() * 1e3);
  EXPECT_NEAR(same_kernel_us(us, bytes, {100000, 256, 32, 0}, a, b), 1 + bytes / (b.streaming_gbs() * 1e3), 0.06 * us);
}

// A kernel at the bandwidth its GPU reaches waits for memory, however much arithmetic that GPU has for a byte.
TEST(Transfer, AStreamingKernelFollowsTheBandwidthAwayFromAGpuWithLittle) {
  constexpr double kBytes = 5e8;
  for (const char* from : {"RTX-4090", "L4", "RTX-4070-Ti", "T4"}) {
    for (const char* to : {"A100-SXM4-80GB", "H100-SXM5", "H200-SXM", "B200", "GB300"}) {
      const double us = 1 + kBytes / (device(from).streaming_gbs() * 1e3);
      const double there = same_kernel_us(us, kBytes, {100000, 256, 32, 0}, device(from), device(to));
      EXPECT_NEAR(there / (1 + kBytes / (device(to).streaming_gbs() * 1e3)), 1, 0.06) << from << " to " << to;
    }
  }
}

// What a kernel computes for a byte is its own: there and back it takes what it took. Kernels out of L2 apart, which a smaller one forgets.
TEST(Transfer, TheSameKernelComesBackAsItWent) {
  std::mt19937_64 random(5);
  const std::vector<Device>& all = devices();
  for (int i = 0; i < 5'000; ++i) {
    const Device& from = all[random() % all.size()];
    const Device& to = all[random() % all.size()];
    const double bytes = 4e8 + static_cast<double>(random() % 1'000'000'000);
    const double slower = 1 + static_cast<double>(random() % 1000) / 200;
    const double us = slower * bytes / (from.streaming_gbs() * 1e3);
    const KernelShape shape{1 + static_cast<std::int64_t>(random() % 100'000), 256, 32, 0};
    const double back = same_kernel_us(same_kernel_us(us, bytes, shape, from, to), bytes, shape, to, from);
    ASSERT_NEAR(back / us, 1, 0.02) << from.name << " to " << to.name;
  }
}

// Kernels that read what the kernel before them wrote find it in L2 as far as it fits.
TEST(Transfer, WhatWasJustWrittenIsReadFromL2) {
  const Device small = device("RTX-3090"), large = device("RTX-4080");
  const KernelShape shape{100000, 256, 32, 0};
  const auto ratio = [&](double bytes, double hot) {
    const double us = 1 + bytes / (small.streaming_gbs() * 1e3);
    return (same_kernel_us(us, {bytes, hot}, shape, small, large) - 1) / (us - 1);
  };
  const double by_bandwidth = small.streaming_gbs() / large.streaming_gbs();
  EXPECT_NEAR(ratio(1e9, 5e8), by_bandwidth, 0.05);   // does not fit into 64 MB
  EXPECT_NEAR(ratio(30e6, 0), by_bandwidth, 0.05);    // fits, and was not written before it
  EXPECT_LT(ratio(30e6, 15e6), 0.7 * by_bandwidth);   // half of it comes out of L2 there, and of memory here
  EXPECT_GT(ratio(30e6, 15e6), 0.45 * by_bandwidth);  // the other half does not
  EXPECT_LT(ratio(60e6, 30e6), ratio(120e6, 60e6));
}

TEST(Transfer, AKernelThatComputesFollowsTheRate) {
  const Device a = device("V100-PCIe-32GB");
  const Device b = device("A100-PCIe-40GB");
  const double there = same_kernel_us(1001, 1e3, {100000, 256, 32, 0}, a, b);
  EXPECT_NEAR(there, 1 + 1000 * a.tflops_fp32 / b.tflops_fp32, 1);
}

TEST(Transfer, TheShortestKernelsStay) {
  EXPECT_NEAR(same_kernel_us(0.9, 1000, {1, 32, 16, 0}, device("H200-SXM"), device("T4")), 0.9, 0.15);
}

TEST(Transfer, TensorCoresThatAreNotThere) {
  const Work half = gemm_work(1, 4096, 4096, 4096, Dtype::kBf16);
  EXPECT_EQ(product_of(half, device("H200-SXM")).kind, ProductKind::kHalf);
  EXPECT_EQ(product_of(half, device("V100-PCIe-32GB")).kind, ProductKind::kFp32);
  const Work tf32 = gemm_work(1, 4096, 4096, 4096, Dtype::kTf32);
  EXPECT_EQ(product_of(tf32, device("T4")).dtype, Dtype::kFp32);
}

TEST(Transfer, AttentionFollowsTheTensorCores) {
  const Work w = attention_work(8, 16, 2048, 2048, 64, Dtype::kBf16, false);
  const Cost c = transfer(1e6, 1e6, w, {}, device("H100-SXM5"), device("A100-SXM4-80GB"));
  ASSERT_TRUE(c.known);
  EXPECT_GT(c.ns, 2e6);  // 989 against 312 TFLOP/s, and neither runs at its peak
  EXPECT_LT(c.ns, 4e6);
  EXPECT_EQ(c.sigma, spreads().attention);
  // Nobody measured its gradient on two GPUs.
  Work gradient = w;
  gradient.backward = true;
  EXPECT_EQ(transfer(1e6, 1e6, gradient, {}, device("H100-SXM5"), device("A100-SXM4-80GB")).sigma,
            spreads().unmeasured);
}

TEST(Transfer, BoardsOfOneArchitectureAreNotSurerForBeingAlike) {
  const Work product = gemm_work(1, 4096, 4096, 4096, Dtype::kBf16);
  const Work attention = attention_work(8, 16, 2048, 2048, 64, Dtype::kBf16, false);
  for (const auto& [from, to] : {std::pair("H100-SXM5", "H200-SXM"), std::pair("B200", "GB200")}) {
    for (const Work& w : {product, attention}) {
      const Cost c = transfer(1e6, 1e6, w, {}, device(from), device(to));
      ASSERT_TRUE(c.known);
      EXPECT_EQ(c.sigma, spreads().same_silicon) << from;
    }
  }
  EXPECT_EQ(transfer(1e6, 1e6, product, {}, device("B200"), device("B200")).sigma, 0);
}

TEST(Transfer, WhatNobodyMeasuredIsTheLeastSure) {
  const Spreads& s = spreads();
  for (const double measured : {s.same_kernel, s.same_silicon, s.attention}) {
    EXPECT_GT(measured, 0);
    EXPECT_LT(measured, s.unmeasured);
  }
  const Work copied = elementwise_work(1 << 24, 1, 1, Dtype::kFp32);
  const auto sigma = [&](const char* to) {
    return transfer(1e5, 1e5, copied, {}, device("H100-SXM5"), device(to)).sigma;
  };
  EXPECT_EQ(sigma("A100-SXM4-80GB"), s.same_kernel);
  EXPECT_EQ(sigma("MI300X"), s.unmeasured);  // another compiler
}

TEST(Transfer, AmdFollowsItsPeaksWithAWideBand) {
  const Work w = gemm_work(1, 4096, 4096, 4096, Dtype::kFp32);
  const Cost there = transfer(3e6, 3e6, w, {}, device("H100-SXM5"), device("MI210"));
  ASSERT_TRUE(there.known);
  EXPECT_GE(there.ns, roofline_ns(w, device("MI210")));
  EXPECT_GE(there.sigma, 0.15);
  EXPECT_TRUE(transfer(3e6, 3e6, w, {}, device("MI210"), device("H100-SXM5")).known);
  // Matrix cores multiply in FP32 there, twice as fast as the vector units.
  EXPECT_GT(device("MI210").tflops(Dtype::kFp32), 1.9 * device("MI210").tflops_fp32);
}

// A kernel that moves what its grid suggests, at any speed from far below to far above what memory allows.
struct AnyKernel {
  double us = 0, bytes = 0;
  KernelShape shape;
};
AnyKernel any_kernel(std::mt19937_64& random) {
  std::uniform_real_distribution<double> log_bytes(2, 10), log_us(-0.5, 5), log_blocks(0, 5);
  AnyKernel k;
  k.us = std::pow(10, log_us(random));
  k.bytes = random() % 8 == 0 ? 0 : std::pow(10, log_bytes(random));
  k.shape = {static_cast<std::int64_t>(std::pow(10, log_blocks(random))), 256, 32, 0};
  return k;
}

TEST(Transfer, TheLawOfTheSameKernelIsContinuousAndMonotone) {
  std::mt19937_64 random(7);
  const std::vector<Device>& all = devices();
  for (int i = 0; i < 10'000; ++i) {
    const AnyKernel k = any_kernel(random);
    const Device& from = all[random() % all.size()];
    const Device& to = all[random() % all.size()];
    const double share = 0.6 + 0.35 * static_cast<double>(random() % 1000) / 1000;
    const double reached = random() % 2 == 0 ? 0 : share * from.bandwidth_gbs;
    const auto at = [&](double us, const Device& d) { return same_kernel_us(us, k.bytes, k.shape, from, d, reached); };
    const double here = at(k.us, to);
    ASSERT_TRUE(std::isfinite(here) && here > 0);
    ASSERT_GE(at(k.us * 1.1, to), here * (1 - 1e-12));
    ASSERT_LE(at(k.us * 1.1, to), here * 1.5)
        << k.us << " us, " << k.bytes << " bytes, " << from.name << " to " << to.name;
    ASSERT_LE(at(k.us * (1 + 1e-9), to), here * (1 + 1e-7));
    const double x = 1 + static_cast<double>(random() % 300) / 100;
    for (int figure = 0; figure < 5; ++figure) {
      Device better = to;
      if (figure == 0) better.tflops_fp32 *= x;
      if (figure == 1) better.bandwidth_gbs *= x;
      if (figure == 2) better.sm_count = static_cast<int>(std::ceil(better.sm_count * x));
      if (figure == 3) better.l2_mb *= x;
      if (figure == 4) better.clock_mhz *= x;
      ASSERT_LE(at(k.us, better), here * (1 + 1e-12)) << figure;
    }
  }
}

TEST(Transfer, ProductsAndAttentionAreContinuousAndMonotoneInTime) {
  std::mt19937_64 random(11);
  const std::vector<Device>& all = devices();
  for (int i = 0; i < 10'000; ++i) {
    const auto size = [&] { return std::int64_t{1} << (random() % 13); };
    const Dtype dtype = std::array{Dtype::kFp32, Dtype::kTf32, Dtype::kFp16, Dtype::kBf16}[random() % 4];
    const Work w = i % 4 == 0 ? attention_work(1 + static_cast<std::int64_t>(random() % 16), 12, size(), size(), 64,
                                               random() % 2 == 0 ? Dtype::kFp16 : Dtype::kFp32, random() % 2 == 0)
                              : gemm_work(1, size(), size(), size(), dtype);
    const Device& from = all[random() % all.size()];
    const Device& to = all[random() % all.size()];
    const double ns = 1e3 * std::pow(10, static_cast<double>(random() % 4000) / 1000);
    const double here = transfer(ns, ns, w, {}, from, to).ns;
    ASSERT_TRUE(std::isfinite(here) && here > 0) << from.name << " to " << to.name;
    ASSERT_GE(transfer(ns * 1.1, ns * 1.1, w, {}, from, to).ns, here * (1 - 1e-12));
    ASSERT_LE(transfer(ns * 1.1, ns * 1.1, w, {}, from, to).ns, here * 1.21);
  }
}

// The two figures of a step that reads 13 % slower than another: 3,788 us and 4,270 us became 582 and 3,115 us on an A100.
TEST(Transfer, NearTheMemoryBoundNothingJumps) {
  const Device from = device("RTX-3090");
  const Device to = device("A100-SXM4-80GB");
  const double bytes = 0.88 * from.bandwidth_gbs * 1e3 * 3788;
  const double fast = same_kernel_us(3788, bytes, {100000, 256, 32, 0}, from, to);
  const double slow = same_kernel_us(4270, bytes, {100000, 256, 32, 0}, from, to);
  EXPECT_LT(slow / fast, 1.4);
  EXPECT_GT(slow / fast, 1.0);
}

TEST(Transfer, TheStepTellsWhatItsMemoryReaches) {
  const Device from = device("A100-SXM4-80GB");
  const Device to = device("H100-SXM5");
  std::vector<Work> works;
  std::vector<double> times;
  for (int i = 0; i < 60; ++i) {
    works.push_back(elementwise_work(50'000'000 + 1'000'000 * i, 2, 1, Dtype::kFp32));
    times.push_back(1e3 + works.back().bytes() / (0.6 * from.bandwidth_gbs));
  }
  EXPECT_NEAR(learnt_streaming_gbs(works, times, from) / from.bandwidth_gbs, 0.6, 0.03);
  EXPECT_EQ(learnt_streaming_gbs({}, {}, from), from.streaming_gbs());
  TransferContext context;
  context.learn(works, times, from);
  const double there = transfer(times[0], times[0], works[0], {100000, 256, 32, 0}, from, to, context).ns;
  EXPECT_NEAR(there / (1e3 + works[0].bytes() / to.streaming_gbs()), 1, 0.12);
}

TEST(Transfer, TensorCoresNeverCostTime) {
  std::mt19937_64 random(3);
  for (const Device& d : devices()) {
    for (int i = 0; i < 200; ++i) {
      const auto size = [&] { return static_cast<std::int64_t>(1 + random() % 6000); };
      const Work strict = gemm_work(random() % 3 == 0 ? 12 : 1, size(), size(), size(), Dtype::kFp32);
      const TransferWeights& weights = TransferWeights::shipped();
      const double plain = best_product_us(strict, weights, d);
      for (const Dtype dtype : {Dtype::kTf32, Dtype::kFp16, Dtype::kBf16}) {
        if (dtype == Dtype::kBf16 && d.tflops_bf16 <= 0) continue;  // converted on the way, as PyTorch does it there
        ASSERT_LE(best_product_us(with_dtype(strict, dtype), weights, d), plain * (1 + 1e-12)) << d.name;
      }
      // Nor when both were measured elsewhere, as far from the law as each other.
      const double miss = std::exp(std::uniform_real_distribution<double>(-0.3, 0.3)(random));
      const auto moved = [&](Dtype dtype) {
        const Work w = with_dtype(strict, dtype);
        const double here = 1e3 * miss * best_product_us(w, weights, device("H200-SXM"));
        return transfer(here, here, w, {}, device("H200-SXM"), d).ns;
      };
      for (const Dtype dtype : {Dtype::kFp16, Dtype::kBf16}) {
        if (d.tflops(dtype) <= d.tflops_fp32) continue;  // no tensor cores for it
        // The share of a miss that goes along is known for each type: where memory decides (MI210), the two may differ by as much.
        ASSERT_LE(moved(dtype), moved(Dtype::kFp32) * 1.02) << d.name;
      }
      // What a what-if made TF32 never takes longer than strict FP32, and takes just that where there is no TF32.
      const Device from = device("H200-SXM");
      if (same_device(from, d)) continue;
      Work tf32 = with_dtype(strict, Dtype::kTf32);
      tf32.strict_ns = 5e5;
      const double before = transfer(5e5, 5e5, strict, {}, from, d).ns;
      const double after = transfer(2e5, 2e5, tf32, {}, from, d).ns;
      ASSERT_LE(after, before) << d.name;
      if (d.tflops_tf32 <= 0) {
        ASSERT_EQ(after, before) << d.name;
      }
    }
  }
}

// What-ifs and the transfer ask one law: a product that is as far from it as its neighbours say goes to another GPU of the same silicon
// as that GPU's own prediction has it, and a change before a move is worth what it is behind it.
TEST(Transfer, BothDoorsGiveTheSameProduct) {
  const Device& h200 = device("H200-SXM");
  const Device& h100 = device("H100-SXM5");
  for (const Dtype type : {Dtype::kFp32, Dtype::kTf32, Dtype::kFp16, Dtype::kBf16}) {
    for (const std::int64_t m : {512, 4096, 16384}) {
      for (const std::int64_t n : {768, 3072, 3070}) {
        const Work w = work::gemm_work(1, m, n, 1024, type);
        const double here = predict(w, h200).ns;
        const double there = predict(w, h100).ns;
        // The same law, the same parameters, the same share of it.
        EXPECT_NEAR(
            there / here,
            best_product_us(w, TransferWeights::shipped(), h100) / best_product_us(w, TransferWeights::shipped(), h200),
            1e-9)
            << m << ' ' << n;
        EXPECT_NEAR(transfer(here, here, w, KernelShape{}, h200, h100).ns / there, 1, 1e-9) << m << ' ' << n;
        const Work twice = work::with_batch(w, 2);
        const double changed = rescale(here, w, twice, h200).ns;
        const double first = transfer(changed, changed, twice, KernelShape{}, h200, h100).ns;
        EXPECT_NEAR(rescale(there, w, twice, h100).ns / first, 1, 1e-9) << m << ' ' << n;
      }
    }
  }
}

// To another generation the same share of a shape's residual goes along, whether the product is modelled or measured.
TEST(Transfer, BothDoorsCarryTheSameMiss) {
  const Device& h200 = device("H200-SXM");
  const Device& a100 = device("A100-SXM4-80GB");
  const TransferWeights& laws = TransferWeights::shipped();
  for (const std::int64_t n : {3072, 3070, 3071}) {
    const Work w = work::gemm_work(1, 4096, n, 1024, Dtype::kFp16);
    const double here = predict(w, h200).ns;
    const double missed = std::log(here / 1e3 / best_product_us(w, laws, h200));
    const double law = best_product_us(w, laws, a100) * 1e3;
    const double carried = Tables::shipped().residual().correlation(ProductKind::kHalf, h200, a100);
    const double expected = law * std::exp(carried * missed);
    // Neighbours are found by the number of tiles per SM, which is another on the A100: the residuals differ a little.
    EXPECT_NEAR(predict(w, a100).ns / expected, 1, n % 8 == 0 ? 1e-3 : 0.25) << n;
    // A measured product shows what odd rows cost, and they cost as much there. The pair of architectures says how much of the rest is carried.
    const double odd = here / predict(work::gemm_work(1, 4096, 3072, 1024, Dtype::kFp16), h200).ns;
    EXPECT_NEAR(transfer(here, here, w, KernelShape{}, h200, a100).ns / (expected * odd), 1, 0.05) << n;
  }
}

// Written by tools/train_transfer.py --carried: a set that lacks them would carry nothing and be sure of everything.
TEST(Transfer, EverySetSaysWhatIsCarriedAndHowSurely) {
  for (const Device& d : devices()) {
    for (std::size_t k = 0; k < kProductKinds; ++k) {
      const auto kind = static_cast<ProductKind>(k);
      const ProductWeights& p = TransferWeights::shipped().of(kind, d);
      EXPECT_GT(p.spread_known, 0.03) << to_string(kind) << ' ' << d.name;
      EXPECT_GE(p.spread_new, p.spread_known) << to_string(kind) << ' ' << d.name;
      EXPECT_LT(p.spread_new, 0.6) << to_string(kind) << ' ' << d.name;
      EXPECT_GT(p.most_common, 0) << to_string(kind) << ' ' << d.name;
      for (const double share : {p.common_known, p.common_new, p.carry_other}) {
        EXPECT_GE(share, 0) << to_string(kind) << ' ' << d.name;
        EXPECT_LE(share, 1) << to_string(kind) << ' ' << d.name;
      }
    }
  }
}

TEST(Transfer, WeightsAreSmallPlainDataAndChecked) {
  for (const char* bad : {"", "kind,architecture,parameter,value\nhalf,any,share,fast\n",
                          "kind,architecture,parameter,value\nquarter,any,share,1\n",
                          "kind,architecture,parameter,value\nhalf,any,tiles,128by64\n"}) {
    const Result<TransferWeights> r = TransferWeights::parse(bad, "weights.csv");
    ASSERT_FALSE(r) << bad;
    EXPECT_THAT(r.error().to_string(), HasSubstr("weights.csv"));
  }
}

}  // namespace
}  // namespace foretrace::hardware
