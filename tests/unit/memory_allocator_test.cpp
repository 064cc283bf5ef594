// The caching allocator's rules, and what they make of a step: how much is reserved for it.

#include <gtest/gtest.h>

#include <random>

#include "foretrace/memory/memory.hpp"
#include "measured_step.hpp"

namespace foretrace::memory {
namespace {

constexpr std::int64_t kKb = 1 << 10;
constexpr std::int64_t kMb = 1 << 20;

std::int64_t reserved_for(std::int64_t bytes) {
  CachingAllocator a;
  a.allocate(bytes);
  return a.reserved();
}

TEST(CachingAllocator, TakesSegmentsBySize) {
  EXPECT_EQ(reserved_for(1), 2 * kMb);
  EXPECT_EQ(reserved_for(kMb), 2 * kMb);
  EXPECT_EQ(reserved_for(kMb + 1), 20 * kMb);
  EXPECT_EQ(reserved_for(10 * kMb - 512), 20 * kMb);
  EXPECT_EQ(reserved_for(10 * kMb), 10 * kMb);
  EXPECT_EQ(reserved_for(10 * kMb + 1), 12 * kMb);
  EXPECT_EQ(reserved_for(0), 2 * kMb) << "an empty request is a block as well";
}

TEST(CachingAllocator, RoundsToItsGrain) {
  CachingAllocator a;
  a.allocate(1);
  EXPECT_EQ(a.allocated(), 512);
  a.allocate(513);
  EXPECT_EQ(a.allocated(), 512 + 1024);
  EXPECT_EQ(a.segments(), 1U);
}

TEST(CachingAllocator, ARestOfUpToAMegabyteStaysWithItsBlock) {
  CachingAllocator a;
  a.free(a.allocate(3 * kMb));  // 20 MiB, all free again
  a.allocate(19 * kMb + 512);
  EXPECT_EQ(a.allocated(), 20 * kMb) << "less than 1 MiB is left: not split off";
  CachingAllocator b;
  b.free(b.allocate(3 * kMb));
  b.allocate(19 * kMb - 512);
  EXPECT_EQ(b.allocated(), 19 * kMb - 512);
  b.allocate(kMb + 512);
  EXPECT_EQ(b.reserved(), 20 * kMb) << "the rest serves the next request";
}

TEST(CachingAllocator, SmallAndLargeRequestsDoNotShare) {
  CachingAllocator a;
  a.free(a.allocate(40 * kMb));
  a.allocate(512 * kKb);
  EXPECT_EQ(a.reserved(), 42 * kMb);
  EXPECT_EQ(a.segments(), 2U);
}

TEST(CachingAllocator, TakesTheSmallestBlockThatFits) {
  CachingAllocator a;
  const auto large = a.allocate(40 * kMb);
  const auto middle = a.allocate(30 * kMb);
  a.free(large);
  a.free(middle);
  a.allocate(29 * kMb);  // out of the 30
  a.allocate(40 * kMb);
  EXPECT_EQ(a.reserved(), 70 * kMb);
}

TEST(CachingAllocator, FreeNeighboursBecomeOneBlock) {
  CachingAllocator a;
  const auto first = a.allocate(6 * kMb);
  const auto second = a.allocate(6 * kMb);
  const auto third = a.allocate(6 * kMb);
  ASSERT_EQ(a.reserved(), 20 * kMb);
  a.free(first);
  a.free(third);
  a.allocate(12 * kMb);
  EXPECT_EQ(a.reserved(), 32 * kMb) << "what is free lies apart: fragmentation";
  a.free(second);
  a.allocate(20 * kMb);
  EXPECT_EQ(a.reserved(), 32 * kMb) << "all of the first segment is one block again";
}

TEST(CachingAllocator, WhateverHappensItAddsUp) {
  std::mt19937 random(11);
  const auto draw = [&](std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
  for (int round = 0; round < 50; ++round) {
    CachingAllocator a;
    std::vector<std::pair<CachingAllocator::Handle, std::int64_t>> held;
    std::int64_t asked = 0;
    for (int i = 0; i < 400; ++i) {
      if (!held.empty() && draw(0, 2) == 0) {
        const auto at = static_cast<std::size_t>(draw(0, static_cast<std::int64_t>(held.size()) - 1));
        a.free(held[at].first);
        asked -= held[at].second;
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
      } else {
        const std::int64_t bytes = draw(1, draw(0, 1) == 0 ? 2 * kMb : 64 * kMb);
        held.emplace_back(a.allocate(bytes), bytes);
        asked += bytes;
      }
      ASSERT_LE(asked, a.allocated());
      ASSERT_LE(a.allocated(), a.reserved());
    }
    const std::int64_t reserved = a.reserved();
    for (const auto& [handle, bytes] : held) a.free(handle);
    EXPECT_EQ(a.allocated(), 0);
    EXPECT_EQ(a.reserved(), reserved) << "segments stay";
  }
}

// A step of two operations, and everything it needs to be one.
Curve made_step() {
  Curve c;
  c.positions = 6;
  c.blocks = {{.bytes = 12 * kMb, .allocated = 1, .freed = 4, .kind = Kind::kActivation},
              {.bytes = 30 * kMb, .allocated = 2, .freed = 5, .kind = Kind::kTemporary},
              {.bytes = 4 * kMb, .allocated = 3, .kind = Kind::kGradient, .stage = Stage::kBackward}};
  c.start_bytes = 12 * kMb;
  c.parameter_bytes = 4 * kMb;
  c.state_bytes = 8 * kMb;
  return c;
}

TEST(Reserved, IsWhatAFewStepsTake) {
  const Curve c = made_step();
  // The first step fits into 20 MiB next to the parameter, and 30. The states then lie where the activation was: in the second
  // step that takes the 30 apart, and the temporary needs 30 more.
  EXPECT_EQ(replayed_reserved(c), (20 + 30 + 30) * kMb);
  EXPECT_EQ(reserved(c), (20 + 30 + 30) * kMb);
  EXPECT_EQ(composition(c, reserved(c)).fragmentation, (20 + 30 + 30) * kMb - peak(c).bytes);
  EXPECT_EQ(composition(c).fragmentation, 0) << "not known";
}

TEST(Reserved, WhatTheTraceRecordedStays) {
  Curve c = made_step();
  c.recorded_reserved = 88 * kMb;
  anchor_reserved(c);
  EXPECT_EQ(reserved(c), 88 * kMb);
  scale_batch(c, 2);
  EXPECT_EQ(reserved(c), replayed_reserved(c) + 8 * kMb) << "8 MiB nobody explains stay on top of the replay";
  c.unexplained_reserved = -1000 * kMb;
  EXPECT_EQ(reserved(c), peak(c).bytes) << "never less than is in use";
}

TEST(Reserved, GradientsOfTheStepBeforeMakeRoomForTheNext) {
  Curve c = made_step();
  c.blocks.push_back({.bytes = 4 * kMb, .allocated = 0, .freed = 1, .kind = Kind::kGradient});
  EXPECT_EQ(replayed_reserved(c), (20 + 30 + 30) * kMb);
}

TEST(Reserved, DecidesWhatFits) {
  const Curve c = made_step();
  ASSERT_EQ(peak(c).bytes, 58 * kMb);
  EXPECT_FALSE(fits(c, 57.0 * kMb));
  EXPECT_FALSE(fits(c, 60.0 * kMb)) << "the peak would fit, what is reserved for it does not";
  EXPECT_TRUE(fits(c, 80.0 * kMb));
  EXPECT_TRUE(fits(c, 500.0 * kMb));
}

TEST(Reserved, SizesThatNoMemoryHolds) {
  Curve c = made_step();
  for (Block& b : c.blocks) b.bytes = INT64_MAX;
  c.start_bytes = INT64_MAX;
  EXPECT_GE(reserved(c), peak(c).bytes);
  c.blocks.front().bytes = -5;
  EXPECT_GE(replayed_reserved(c), 0);
}

// The replay knows the blocks of one step and nothing of what was recorded as reserved.
TEST(Reserved, MeetsWhatTracesRecorded) {
  for (const char* name : {"h200-clean/bert_base", "h200-clean/bert_base-today", "h200-clean/gpt2-today",
                           "h200-clean/resnet50", "h200-clean/lstm_lm@8", "h200-clean/mlp"}) {
    const Curve& c = *test::measured_step(name).model.memory;
    ASSERT_GT(c.recorded_reserved, c.peak_bytes) << name;
    EXPECT_NEAR(static_cast<double>(replayed_reserved(c)) / static_cast<double>(c.recorded_reserved), 1, 0.055) << name;
    EXPECT_EQ(reserved(c), c.recorded_reserved) << name;
  }
}

}  // namespace
}  // namespace foretrace::memory
