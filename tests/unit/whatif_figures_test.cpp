// Figures that what-ifs rest on: what the tables say, and what is counted as PyTorch counts it.
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <set>

#include "foretrace/host/unprofiled.hpp"
#include "foretrace/whatif/model.hpp"
#include "hardware/figures.hpp"
#include "trace/latencies.hpp"
#include "whatif/rewrite/optimizer.hpp"

namespace foretrace::whatif {
namespace {

double launches(std::initializer_list<int> passes, double tensors, double elements) {
  return std::accumulate(passes.begin(), passes.end(), 0.0,
                         [&](double sum, int lists) { return sum + list_launches(lists, tensors, elements); });
}

// data/h200-kernels/opt.csv.gz: kernels of one update.
TEST(Figures, UpdatesOverListsLaunchAsManyKernelsAsMeasured) {
  constexpr double kTensors = 400, kSmall = 400'000;
  EXPECT_EQ(launches({1, 2, 2}, kTensors, kSmall), 18);                                   // SGD with momentum
  EXPECT_EQ(launches({2}, kTensors, kSmall), 7);                                          // SGD
  EXPECT_EQ(launches({3}, kTensors, kSmall), 9);                                          // fused, with momentum
  EXPECT_EQ(launches({4}, kTensors, kSmall) + list_launches(1, kTensors, kTensors), 16);  // fused Adam
  EXPECT_NEAR(launches({2, 1, 3, 2, 1, 1, 3}, kTensors, kSmall), 45, 1);                  // Adam; one list has scalars
  EXPECT_EQ(launches({4}, 161, 25'557'032) + list_launches(1, 161, 161), 7);              // ResNet-50, fused Adam
  EXPECT_EQ(launches({3}, 161, 25'557'032), 4);                                           // with momentum
  EXPECT_NEAR(launches({4}, 10, 167'772'160), 9, 1);                                      // chunks decide
  EXPECT_EQ(list_launches(1, 0, 0), 1);
  EXPECT_EQ(list_launches(99, 30, 1), list_launches(5, 30, 1));
}

TEST(Figures, TablesHoldWhatTheirToolsWrote) {
  const hardware::Figures& f = hardware::measured_figures();
  for (const double share :
       {f.kernel_contention, f.collective_contention, f.collective_inside, f.layout_share, f.gpu_repeat}) {
    EXPECT_GT(share, 0);
    EXPECT_LT(share, 1);
  }
  EXPECT_GE(f.half_sum, 1);
  EXPECT_GT(trace::default_latencies().result_ready, trace::default_latencies().sync_return);
  const host::HostCosts& host = host::HostCosts::built_in();
  EXPECT_GT(host.eager.scaler_us, host.eager.op_us);
  EXPECT_GT(host.uncertainty.run_to_run, 0);
  EXPECT_LT(host.uncertainty.run_to_run, 1);
  EXPECT_GT(host.fsdp.fill_share, 0);
  EXPECT_LT(host.fsdp.fill_share, 1);
}

TEST(Figures, WhatNobodyMeasuredErrsAsTheBuiltInFamiliesDo) {
  std::set<std::string> families;
  for (const Residuals::Row& row : Residuals::built_in("H200-SXM").rows()) families.insert(row.family);
  double squares = 0;
  for (const std::string& family : families) squares += std::pow(Residuals::built_in("H200-SXM").sigma(family), 2);
  const Result<Residuals> none = Residuals::parse("", "table.csv");
  ASSERT_TRUE(none.has_value());
  EXPECT_NEAR(none->sigma("host"), std::sqrt(squares / static_cast<double>(families.size())), 1e-12);
  EXPECT_EQ(none->sigma("gemm"), none->sigma("host"));
}

}  // namespace
}  // namespace foretrace::whatif
