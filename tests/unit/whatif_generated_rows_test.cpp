// Kernels that XLA generated, in another type and for another batch; and steps of data/h200-jax from each other.

#include <gtest/gtest.h>

#include <string>

#include "measured_step.hpp"
#include "whatif/rewrite/generated_rows.hpp"

namespace foretrace::whatif {
namespace {

using test::predicted;
using test::step_at;
using work::Dtype;
using work::Family;
using work::Work;

constexpr double kShort = 1300;
constexpr double kStreamed = 8e6 / (0.9 * 4800);  // ns that memory takes for 8 MB

hardware::Device gpu() {
  hardware::Device d;
  d.sm_count = 132;
  d.bandwidth_gbs = 4800;
  d.achievable_bandwidth = 0.9;
  return d;
}

Work streamed(double megabytes, Family family = Family::kElementwise) {
  Work w(family);
  w.bytes_read = 0.75e6 * megabytes;
  w.bytes_written = 0.25e6 * megabytes;
  w.elements = static_cast<std::int64_t>(w.bytes_written / 4);
  return w;
}

TEST(GeneratedRows, TakeTheTimeOfTheirBytes) {
  const Work was = streamed(800);
  const double ns = kShort + 100 * kStreamed;  // as fast as memory
  const auto half = [&](const Work& w, double measured) {
    return generated_ns(measured, w, with_dtype(w, Dtype::kBf16), {100'000, 1056}, kShort, gpu());
  };
  EXPECT_NEAR(half(was, ns), kShort + 50 * kStreamed, 1);
  EXPECT_NEAR(half(was, ns / 2), kShort + (ns / 2 - kShort) / 2, 1);  // some of it came from the cache
  Work mixed = was;                                                   // a quarter of what it moves stays FP32
  mixed.fixed_read = 200e6;
  EXPECT_NEAR(half(mixed, ns), kShort + 62.5 * kStreamed, 1);
  EXPECT_EQ(generated_ns(900, streamed(0.01), streamed(0.02), {1, 1056}, kShort, gpu()), 900);
}

// A few blocks read 8 MB in 12 µs, most of it something else than waiting for memory's bandwidth: there are as many elements as before.
TEST(GeneratedRows, WhatIsBeyondBytesStaysInHalf) {
  const Work was = streamed(8, Family::kReduction);
  const Work half = with_dtype(was, Dtype::kBf16);
  EXPECT_NEAR(generated_ns(12'000, was, half, {32, 1056}, kShort, gpu()), 12'000 - kStreamed / 2, 1);
  EXPECT_NEAR(generated_ns(12'000 - kStreamed / 2, half, was, {16, 1056}, kShort, gpu()), 12'000, 1);
}

TEST(GeneratedRows, MoreBlocksRunBesideEachOther) {
  const Work was = streamed(8, Family::kReduction);
  const Work twice = with_batch(was, 2);
  EXPECT_NEAR(generated_ns(12'000, was, twice, {32, 1056}, kShort, gpu()), 12'470, 1);
  // What only waits for memory waits for twice the bytes, however many blocks there are; and for a quarter of them.
  const double waits = kShort + kStreamed;
  EXPECT_NEAR(generated_ns(waits, was, twice, {32, 1056}, kShort, gpu()), kShort + 2 * kStreamed, 1);
  EXPECT_NEAR(generated_ns(waits, was, with_batch(was, 0.25), {1200, 1056}, kShort, gpu()), kShort + kStreamed / 4, 1);
  // What sums over samples has as many blocks as before, each with twice the work.
  Work sums = was;
  sums.access = work::Access::kStrided;
  EXPECT_NEAR(generated_ns(12'000, sums, with_batch(sums, 2), {32, 1056}, kShort, gpu()),
              kShort + (12'000 - kShort) * 2, 1);
}

TEST(GeneratedRows, HalvesAreAddedByExchange) {
  Work scatter = streamed(8, Family::kEmbedding);
  scatter.backward = true;
  const Work half = with_dtype(scatter, Dtype::kBf16);
  const double there = generated_ns(20'000, scatter, half, {4000, 1056}, kShort, gpu());
  EXPECT_NEAR(there, kShort + (20'000 - kShort) * 2, 1);
  EXPECT_NEAR(generated_ns(there, half, scatter, {4000, 1056}, kShort, gpu()), 20'000, 1);
  scatter.fixed_read = scatter.bytes_read,
  scatter.fixed_written = scatter.bytes_written;  // of a loss, which stays FP32
  EXPECT_EQ(generated_ns(20'000, scatter, with_dtype(scatter, Dtype::kBf16), {4000, 1056}, kShort, gpu()), 20'000);
}

double gpu_ms(const Prediction& p) { return static_cast<double>(p.gpu_time) / 1e6; }
const Model& jax(const char* name) { return step_at(std::string("data/h200-jax/") + name + ".xplane.pb.gz").model; }

// Its products of 196 patches are no multiple of 8 long: XLA's own kernels load them all the same.
TEST(GeneratedRows, AMixerInHalf) {
  EXPECT_NEAR(gpu_ms(predicted(jax("mixer.tf32.b64"), {"amp:dtype=bf16"})), 5.78, 0.05 * 5.78);
  EXPECT_NEAR(gpu_ms(predicted(jax("mixer.fp32.b64"), {"amp:dtype=bf16"})), 5.78, 0.05 * 5.78);
}

// XLA divides its sums over 25,088 rows into two parts, and those over 6,272 too.
TEST(GeneratedRows, PartsOfASumStayAsMany) {
  EXPECT_NEAR(gpu_ms(predicted(jax("mixer.tf32.b128"), {"batch:x=0.25"})), 6.09, 0.1 * 6.09);
}

// Strict convolutions by Fourier transforms are launched kernel by kernel; where they go, so does what the host did for them.
TEST(GeneratedRows, HostWorkGoesWithItsLaunches) {
  const auto host = [](const Prediction& p) {
    Ns sum = 0;
    for (std::uint32_t t = 0; t < p.graph.size(); ++t) {
      if (p.graph.kind[t] == TaskKind::kCpu && p.graph.task_name(t).starts_with("cudnn-conv")) sum += p.graph.cost[t];
    }
    return sum;
  };
  const Model& strict = jax("unet.fp32.b32");
  EXPECT_LT(host(predicted(strict, {"amp:dtype=bf16"})), host(predicted(strict, {})) * 3 / 4);
}

}  // namespace
}  // namespace foretrace::whatif
