// Carrying measured kernels over to other GPUs: identity, bounds, and what may only move one way.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "foretrace/hardware/transfer.hpp"
#include "hardware/transfer_product.hpp"

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
  EXPECT_NEAR(same_kernel_us(us, bytes, {100000, 256, 32, 0}, a, b), 1 + bytes / (b.streaming_gbs() * 1e3), 0.5);
}

TEST(Transfer, AKernelThatComputesFollowsTheRate) {
  const Device a = device("V100-PCIe-32GB");
  const Device b = device("A100-PCIe-40GB");
  const double there = same_kernel_us(1001, 1e3, {100000, 256, 32, 0}, a, b);
  EXPECT_NEAR(there, 1 + 1000 * a.tflops_fp32 / b.tflops_fp32, 1);
}

TEST(Transfer, TheShortestKernelsStay) {
  EXPECT_EQ(same_kernel_us(0.9, 1000, {1, 32, 16, 0}, device("H200-SXM"), device("T4")), 0.9);
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
  EXPECT_GE(c.sigma, 0.25);
}

TEST(Transfer, OtherVendorsAreDeclined) {
  const Status s = can_transfer(device("H200-SXM"), device("MI300X"));
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, ErrorCode::kDeclined);
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
