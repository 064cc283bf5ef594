#include <gtest/gtest.h>

#include <cmath>

#include "hardware/cost.hpp"
#include "hardware/measured.hpp"
#include "hardware/neighbours.hpp"
#include "hardware/tables.hpp"

namespace foretrace::hardware {
namespace {

// A level for small sizes, another for large ones, along one feature; the second says nothing.
Neighbours two_levels() {
  Neighbours pool({.scales = {1.0, 0.0}, .noise = 0.001});
  for (std::uint32_t i = 0; i < 20; ++i) {
    pool.add({.at = {0.5 * i, static_cast<double>(i * 7 % 5)}, .value = i < 10 ? -1.0 : 1.0, .group = i, .shape = i});
  }
  return pool;
}

TEST(Neighbours, ASampleIsPredictedAsItWasMeasured) {
  const Neighbours pool = two_levels();
  for (const Neighbours::Sample& s : pool.samples()) EXPECT_NEAR(pool.at(s.at).value, s.value, 0.02);
  EXPECT_LT(pool.at({2.0, 0}).variance, 0.01);
}

TEST(Neighbours, BetweenSamplesLiesWhatIsBetween) {
  const Neighbours pool = two_levels();
  const double middle = pool.at({4.75, 0}).value;
  EXPECT_NEAR(middle, 0, 0.1);
  EXPECT_NEAR(pool.at({2.25, 0}).value, -1, 0.05);
  EXPECT_GT(pool.at({4.75, 0}).variance, pool.at({4.5, 0}).variance);
}

// One library's choice among many others: the mean takes its part of it, the median none; at the sample itself both say what it took.
TEST(Neighbours, TheMedianDoesNotFollowOneOfMany) {
  Neighbours pool({.scales = {0.3}, .noise = 0.02, .middle = 1});
  for (std::uint32_t i = 0; i < 20; ++i) {
    pool.add({.at = {0.5 * i}, .value = i == 9 ? 2.0 : 0.0, .group = i, .shape = i});
  }
  const Neighbours::Prediction near = pool.at({4.75}, {.left_out = 10});
  EXPECT_GT(near.mean, 0.2);
  EXPECT_LT(std::abs(near.value), std::abs(near.mean));
  EXPECT_NEAR(pool.at({5.5}, {.left_out = 11}).value, 0, 1e-9);
  EXPECT_NEAR(pool.at({4.5}).value, 2, 0.3);
}

TEST(Neighbours, FarFromAllOfThemTheirMean) {
  const Neighbours::Prediction far = two_levels().at({1e3, 0});
  EXPECT_GE(far.value, -1.0);
  EXPECT_LE(far.value, 1.0);
  EXPECT_GT(far.variance, 0.9);
}

TEST(Neighbours, AGroupThatIsLeftOutSaysNothing) {
  Neighbours pool = two_levels();
  pool.add({.at = {2.0, 0}, .value = 5.0, .group = 99});
  EXPECT_GT(pool.at({2.0, 0}).value, 1.0);
  EXPECT_NEAR(pool.at({2.0, 0}, {.left_out = 99}).value, -1, 0.02);
}

TEST(Neighbours, WhatTheAskerMeasuredIsANeighbour) {
  const Neighbours pool = two_levels();
  const Neighbours::Sample own{.at = {2.25, 0}, .value = 0.0};
  EXPECT_NEAR(pool.with_own({2.25, 0}, own, {}).with_own.value, 0.0, 0.01);
  EXPECT_NEAR(pool.with_own({8.0, 0}, own, {}).with_own.value, pool.at({8.0, 0}).value, 0.05);
}

// Many samples are as far away as others: which of them count does not depend on the way they are found.
TEST(Neighbours, ACompletePoolAnswersAsOneThatLooksAtAllSamples) {
  Neighbours pool({.scales = {0.7, 0.0, 0.5}, .noise = 0.05, .middle = 1});
  for (std::uint32_t i = 0; i < 400; ++i) {
    const double x = i * 37 % 23, y = i % 5, z = i * 11 % 7;
    pool.add({.at = {x, y, z}, .value = std::sin(x) + 0.1 * (i % 3), .group = i % 10});
  }
  Neighbours complete = pool;
  complete.complete();
  for (std::uint32_t i = 0; i < 60; ++i) {
    const Features place = {0.5 * i - 4, 0, 0.25 * (i % 30)};
    const Neighbours::SampleFilter filter =
        i % 2 == 0 ? Neighbours::SampleFilter{} : Neighbours::SampleFilter{.left_out = 3};
    EXPECT_EQ(complete.at(place, filter).value, pool.at(place, filter).value) << i;
    EXPECT_EQ(complete.at(place, filter).variance, pool.at(place, filter).variance) << i;
  }
}

TEST(Neighbours, BothAnswersAtOnceAreThoseOfEachAlone) {
  Neighbours pool;
  pool.rescale({.scales = {0.7, 0.3, 0.1, 0.5, 0.2}, .noise = 0.05});
  for (std::uint32_t i = 0; i < 300; ++i) {
    const double x = i * 37 % 101, y = i * 53 % 29, z = i * 11 % 7;
    pool.add({.at = {x, y, z, x * y / 30, z - y}, .value = std::sin(x) + 0.1 * y, .group = i % 10});
  }
  for (std::uint32_t i = 0; i < 40; ++i) {
    const Features place = {1.7 * i, 0.4 * i, 0.1 * i, 2.0, -1.0 * i};
    const Neighbours::Sample own{.at = {1.7 * i + 1, 0.4 * i}, .value = 3.0};
    const Neighbours::Answers both = pool.with_own(place, own, {});
    const Neighbours::Prediction alone = pool.at(place);
    EXPECT_EQ(both.alone.value, alone.value);
    EXPECT_EQ(both.alone.variance, alone.variance);
    EXPECT_LE(both.with_own.variance, alone.variance);
    const Neighbours::Answers none = pool.with_own(place, std::nullopt, {.left_out = 3});
    EXPECT_EQ(none.with_own.value, pool.at(place, {.left_out = 3}).value);
  }
}

TEST(Neighbours, OnlyTheNearestSpeak) {
  Neighbours near, all;
  for (Neighbours* pool : {&near, &all}) pool->rescale({.scales = {1, 1, 1, 1, 1, 1}});
  for (std::uint32_t i = 0; i < 400; ++i) {
    const bool far = i % 10 != 0;
    const double d = far ? 100 + i : 0.01 * i;
    const Neighbours::Sample sample{.at = {0, far ? 0 : d, 0, 0, far ? d : 0, 0.5}, .value = far ? 9.0 : std::cos(d)};
    all.add(sample);
    if (!far) near.add(sample);
  }
  EXPECT_DOUBLE_EQ(all.at({}).value, near.at({}).value);  // the same, summed in another order
}

TEST(Neighbours, ValuesThatComeLaterAreAskedForOnce) {
  Neighbours pool({.scales = {1.0}, .noise = 0.001});
  int asked = 0;
  pool.value_later([&](const Neighbours::Sample& s) {
    ++asked;
    return std::log(s.us);
  });
  for (std::uint32_t i = 0; i < 100; ++i) {
    pool.add({.at = {static_cast<double>(i)}, .value = Neighbours::kLater, .group = i, .us = std::exp(0.1 * i)});
  }
  EXPECT_NEAR(pool.at({50}).value, 5.0, 0.01);
  EXPECT_NEAR(pool.at({50}).value, 5.0, 0.01);
  EXPECT_EQ(asked, 24);  // the nearest
  EXPECT_NEAR(pool.samples().back().value, 9.9, 1e-9);
}

const Device& h200() {
  static const Device kDevice = *find_device("H200-SXM");
  return kDevice;
}

// 3 x 3, as many channels out as in, the size kept.
Work filter(Convolution c, Dtype dtype, Family family) {
  Work w(family);
  w.dtype = w.out_dtype = dtype;
  c.out_channels = c.input[1];
  c.kernel_h = c.kernel_w = 3;
  c.out_h = c.input[2];
  c.out_w = c.input[3];
  w.kind = c;
  refresh(w);
  return w;
}

Work conv(std::int64_t n, Dtype dtype, Family family = Family::kConvForward) {
  Convolution c;
  c.input = {n, 256, 14, 14};
  return filter(c, dtype, family);
}

// Every table is read, every pool has scales, and no cell of a table is lost.
TEST(MeasuredOperations, EveryPoolHasItsScales) {
  const MeasuredCategories& pools = Tables::shipped().kernels().all("H200-SXM");
  ASSERT_GT(pools.size(), 150U);
  for (const auto& [name, pool] : pools) {
    EXPECT_GT(pool.samples.size(), 0U) << name;
    EXPECT_LE(pool.features, kMostFeatures) << name;
    EXPECT_NE(pool.spread, 0.3) << name << ": no line in the file of scales";
    for (const Neighbours::Sample& s : pool.samples.samples()) ASSERT_TRUE(std::isfinite(s.value)) << name;
  }
}

// What was measured at one batch size tells another: a kernel twice as slow as its neighbours stays so nearby, and less so far off.
TEST(MeasuredOperations, ABatchNearbyKeepsWhatWasMeasured) {
  const Work was = conv(64, Dtype::kFp32);
  const double usual = predict(was, h200()).ns;
  const auto ratio = [&](std::int64_t n) {
    const Work now = conv(n, Dtype::kFp32);
    return rescale(2 * usual, was, now, h200()).ns / predict(now, h200()).ns;
  };
  EXPECT_GT(ratio(66), 1.8);
  EXPECT_GT(ratio(128), 1.2);
  EXPECT_LT(ratio(8192), ratio(66));
}

// A sum that a compiler generated, with all that leads to it, at a quarter of what the framework's kernels take.
TEST(MeasuredOperations, KernelsFarFromThoseOfTheTablesGrowAsTheirBytes) {
  const auto sums = [](std::int64_t rows) {
    Work w(Family::kReduction);
    w.dtype = w.out_dtype = Dtype::kFp32;
    w.elements = rows * 768;
    w.bytes_read = 7 * 4.0 * static_cast<double>(rows) * 768;
    w.bytes_written = 4.0 * static_cast<double>(rows);
    w.kind = Rows{.rows = rows, .columns = 768};
    return w;
  };
  const double usual = predict(sums(4096), h200()).ns;
  const auto grown = [&](double measured) { return rescale(measured, sums(4096), sums(8192), h200()).ns / measured; };
  const double model = predict(sums(8192), h200()).ns / usual;
  EXPECT_NEAR(grown(usual / 4), model, 0.01 * model);
  EXPECT_NEAR(grown(usual), model, 0.1 * model);
}

TEST(MeasuredOperations, UncertaintyGrowsWithTheDistance) {
  EXPECT_LT(predict(conv(64, Dtype::kFp16), h200()).sigma, predict(conv(500'000, Dtype::kFp16), h200()).sigma);
}

TEST(MeasuredOperations, HalfPrecisionPaysOnTensorCores) {
  for (const Family pass : {Family::kConvForward, Family::kConvDataGrad, Family::kConvWeightGrad}) {
    const double single = predict(conv(128, Dtype::kFp32, pass), h200()).ns;
    EXPECT_LT(predict(conv(128, Dtype::kFp16, pass), h200()).ns, 0.5 * single);
    EXPECT_LT(predict(conv(128, Dtype::kTf32, pass), h200()).ns, 0.7 * single);
  }
}

}  // namespace
}  // namespace foretrace::hardware
