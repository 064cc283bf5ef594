// Blocks per SM: known cases by compute capability, the driver's own answers on a GPU, and what traces say.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>

#include "base/byte_source.hpp"
#include "foretrace/trace/load.hpp"
#include "hardware/occupancy.hpp"

namespace foretrace::hardware {
namespace {

Device device(const char* name) { return *find_device(name); }

TEST(Occupancy, ByWhatRunsOutFirst) {
  const Device a100 = device("A100-SXM4-80GB");
  const Occupancy registers = occupancy({4096, 256, 40, 8192}, a100);
  EXPECT_EQ(registers.blocks_per_sm, 6);  // 40 registers x 32 threads = 5 units of 256; 12 warps in each of four parts
  EXPECT_EQ(registers.limit, Limit::kRegisters);
  EXPECT_EQ(occupancy({1, 1024, 32, 0}, a100).blocks_per_sm, 2);
  EXPECT_EQ(occupancy({1, 1024, 32, 0}, a100).limit, Limit::kThreads);
  EXPECT_EQ(occupancy({1, 32, 16, 0}, a100).blocks_per_sm, 32);
  EXPECT_EQ(occupancy({1, 32, 16, 0}, a100).limit, Limit::kBlocks);
  EXPECT_EQ(occupancy({1, 128, 32, 81920}, a100).limit, Limit::kShared);
  EXPECT_EQ(occupancy({1, 128, 32, 81920}, a100).blocks_per_sm, 2);  // 81 KiB with the driver's own, of 164
}

TEST(Occupancy, FollowsTheComputeCapability) {
  // 48 KiB: twice in 96 KiB of a V100, once in 64 of a T4, once in 100 of an RTX 3090 (49 KiB each with the reserve: twice).
  const KernelShape k{1, 128, 32, 48 * 1024};
  EXPECT_EQ(occupancy(k, device("V100-SXM2-16GB")).blocks_per_sm, 2);
  EXPECT_EQ(occupancy(k, device("T4")).blocks_per_sm, 1);
  EXPECT_EQ(occupancy(k, device("RTX-3090")).blocks_per_sm, 2);
  EXPECT_EQ(occupancy({1, 128, 32, 50 * 1024}, device("RTX-3090")).blocks_per_sm, 1);
  // A Turing SM holds 1,024 threads, an Ada SM 1,536.
  EXPECT_EQ(occupancy({1, 256, 32, 0}, device("T4")).blocks_per_sm, 4);
  EXPECT_EQ(occupancy({1, 256, 32, 0}, device("L40S")).blocks_per_sm, 6);
}

TEST(Occupancy, WhatCannotRun) {
  const Device h200 = device("H200-SXM");
  EXPECT_EQ(occupancy({1, 1025, 16, 0}, h200).blocks_per_sm, 0);
  EXPECT_EQ(occupancy({1, 1024, 128, 0}, h200).blocks_per_sm, 0);
  EXPECT_EQ(occupancy({1, 32, 16, 300 * 1024}, h200).blocks_per_sm, 0);
  EXPECT_EQ(waves({4, 1025, 16, 0}, h200), 0);
}

TEST(Occupancy, Waves) {
  const Device h200 = device("H200-SXM");
  const KernelShape k{132 * 8, 256, 32, 0};
  EXPECT_EQ(blocks_per_wave(k, h200), 132 * 8);
  EXPECT_DOUBLE_EQ(waves(k, h200), 1.0);
}

// 36,870 answers of the driver on an H200: block sizes x registers x static x dynamic shared memory.
TEST(Occupancy, AsTheDriverOfAnH200) {
  Result<std::unique_ptr<ByteSource>> source =
      open_source(std::string(FORETRACE_SOURCE_DIR) + "/tests/data/occupancy-h200.csv.gz");
  ASSERT_TRUE(source) << source.error().to_string();
  std::string text;
  std::string piece(1 << 16, '\0');
  while (true) {
    const Result<std::size_t> n = (*source)->read(piece.data(), piece.size());
    ASSERT_TRUE(n);
    if (*n == 0) break;
    text.append(piece, 0, *n);
  }
  const Device h200 = device("H200-SXM");
  std::istringstream lines(text);
  std::string line;
  std::size_t rows = 0;
  while (std::getline(lines, line)) {
    long block = 0, registers = 0, fixed = 0, dynamic = 0, expected = 0;
    if (std::sscanf(line.c_str(), "%ld,%ld,%ld,%ld,%ld", &block, &registers, &fixed, &dynamic, &expected) != 5)
      continue;
    ++rows;
    ASSERT_EQ(occupancy({1, block, registers, fixed + dynamic}, h200).blocks_per_sm, expected) << line;
  }
  EXPECT_EQ(rows, 36870U);
}

// "est. achieved occupancy %" of every kernel with at most 48 KiB of shared memory.
void expect_as_traced(const std::filesystem::path& folder) {
  std::size_t kernels = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".json.gz") || name.starts_with("jax")) continue;
    const Result<trace::Trace> trace = trace::load(entry.path().string());
    ASSERT_TRUE(trace) << trace.error().to_string();
    const Result<DeviceMatch> match = device_of(*trace);
    if (!match) continue;
    for (std::size_t e = 0; e < trace->events.size(); ++e) {
      const trace::KernelLaunch* l = trace->launch(e);
      if (l == nullptr || l->occupancy_pct < 0 || l->registers_per_thread < 0 || l->shared_memory_bytes > 48 * 1024)
        continue;
      const KernelShape k{l->grid[0] * l->grid[1] * l->grid[2], l->block[0] * l->block[1] * l->block[2],
                          l->registers_per_thread, l->shared_memory_bytes};
      ++kernels;
      ASSERT_EQ(achieved_occupancy_pct(k, match->device), static_cast<int>(l->occupancy_pct))
          << name << ": " << trace->name(e) << ", " << k.blocks << " x " << k.threads << ", " << k.registers
          << " registers, " << k.shared_bytes << " bytes";
    }
  }
  EXPECT_GT(kernels, 0U) << folder;
}

TEST(Occupancy, AsTracedInTheExample) { expect_as_traced(std::filesystem::path(FORETRACE_SOURCE_DIR) / "examples"); }
TEST(Occupancy, AsTracedInOurOwnRuns) {
  expect_as_traced(std::filesystem::path(FORETRACE_SOURCE_DIR) / "data" / "h200-more");
}
TEST(Occupancy, AsTracedInTheTruth) {
  const char* folder = std::getenv("FORETRACE_TRUTH");
  if (folder == nullptr) GTEST_SKIP() << "FORETRACE_TRUTH is not set";
  expect_as_traced(folder);
}

}  // namespace
}  // namespace foretrace::hardware
