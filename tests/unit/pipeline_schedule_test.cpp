// Orders of pipeline schedules against those printed in the papers, bubbles and activations in flight against closed forms.

#include "simulate/pipeline_schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "simulate/pipeline_run.hpp"

namespace foretrace::test {
namespace {

using simulate::ActionKind;
using simulate::PipelineAction;
using simulate::PipelineSchedule;
using simulate::ScheduleKind;
using ::testing::ElementsAre;

PipelineSchedule made(ScheduleKind kind, std::uint32_t ranks, std::uint32_t microbatches, std::uint32_t chunks = 1) {
  auto s = simulate::make_pipeline_schedule({kind, ranks, microbatches, chunks});
  if (!s) {
    ADD_FAILURE() << s.error().to_string();
    return {};
  }
  return std::move(*s);
}

// Equal stages whose gradients of inputs and of weights cost `backward - weight` and `weight`.
simulate::PipelineCosts equal(const PipelineSchedule& s, Ns forward, Ns backward, Ns weight) {
  simulate::PipelineCosts out;
  out.stages.assign(s.stages(), {.forward = forward, .backward = backward, .weight = weight});
  out.transfer.assign(s.stages() - 1, 0);
  return out;
}

Ns bubble(const PipelineSchedule& s, Ns forward, Ns backward, Ns weight) {
  return simulate::run_pipeline(s, equal(s, forward, backward, weight)).bubble();
}

struct Case {
  ScheduleKind kind;
  std::uint32_t ranks, microbatches, chunks;
};
std::vector<Case> cases() {
  std::vector<Case> out;
  for (const std::uint32_t p : {1U, 2U, 4U, 6U, 8U}) {
    for (const std::uint32_t rounds : {1U, 2U, 4U}) {
      const std::uint32_t m = p * rounds;
      out.push_back({ScheduleKind::kGpipe, p, m, 1});
      out.push_back({ScheduleKind::kOneForwardOneBackward, p, m, 1});
      for (const std::uint32_t v : {2U, 3U}) out.push_back({ScheduleKind::kInterleaved, p, m, v});
      out.push_back({ScheduleKind::kZeroBubble, p, m, 1});
      if (p % 2 == 0 && rounds > 1) out.push_back({ScheduleKind::kDualPipe, p, m, 2});
    }
  }
  return out;
}

TEST(PipelineSchedule, OrdersOfTwoStages) {
  const auto s = made(ScheduleKind::kOneForwardOneBackward, 2, 4);
  EXPECT_EQ(simulate::to_text(s.ranks[0]), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(simulate::to_text(s.ranks[1]), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(simulate::to_text(made(ScheduleKind::kGpipe, 2, 3).ranks[0]), "F0 F1 F2 B0 B1 B2");
  // Two chunks: rank 0 holds stages 0 and 2, and leaves the second stage of a round first.
  const auto i = made(ScheduleKind::kInterleaved, 2, 4, 2);
  EXPECT_EQ(simulate::to_text(i.ranks[0]), "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3");
  EXPECT_EQ(simulate::to_text(made(ScheduleKind::kZeroBubble, 2, 3).ranks[1]), "F0 I0 F1 I1 W0 F2 I2 W1 W2");
}

TEST(PipelineSchedule, OneStageDoesOneMicroBatchAfterTheOther) {
  EXPECT_EQ(simulate::to_text(made(ScheduleKind::kOneForwardOneBackward, 1, 3).ranks[0]), "F0 B0 F1 B1 F2 B2");
}

TEST(PipelineSchedule, EveryMicroBatchPassesEveryStageOnceEachWay) {
  for (const Case& c : cases()) {
    const auto s = made(c.kind, c.ranks, c.microbatches, c.chunks);
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::map<ActionKind, int>> seen;
    for (std::uint32_t r = 0; r < c.ranks; ++r) {
      for (const PipelineAction& a : s.ranks[r]) ++seen[{s.stage_of(r, a.chunk), a.microbatch}][a.kind];
    }
    EXPECT_EQ(seen.size(), std::size_t{s.stages()} * c.microbatches);
    for (auto& [where, kinds] : seen) {
      EXPECT_EQ(kinds[ActionKind::kForward], 1);
      EXPECT_EQ(kinds[ActionKind::kBackward] + kinds[ActionKind::kBackwardInput], 1);
      EXPECT_EQ(kinds[ActionKind::kBackwardInput], kinds[ActionKind::kBackwardWeight]);
    }
  }
}

TEST(PipelineSchedule, EveryScheduleEndsAndNoRankDoesTwoThingsAtOnce) {
  for (const Case& c : cases()) {
    const auto s = made(c.kind, c.ranks, c.microbatches, c.chunks);
    const auto run = simulate::run_pipeline(s, equal(s, 10, 20, 10));
    for (std::uint32_t r = 0; r < c.ranks; ++r) {
      EXPECT_EQ(run.busy[r], Ns{30} * c.microbatches * (c.kind == ScheduleKind::kDualPipe ? 1 : c.chunks));
      for (std::size_t i = 1; i < run.start[r].size(); ++i) {
        if (!s.ranks[r][i].overlaps_previous) EXPECT_GE(run.start[r][i], run.finish[r][i - 1]);
      }
    }
  }
}

// GPipe and 1F1B: (p - 1)(F + B). Interleaved over v chunks: a v-th of that. ZB1P: (p - 1)(F + B - 2W).
TEST(PipelineSchedule, BubblesAreThoseOfTheClosedForms) {
  for (const Ns forward : {100, 70, 130}) {
    for (const Ns backward : {200, 260}) {
      for (const std::int64_t p : {2, 4, 8}) {
        const auto ranks = static_cast<std::uint32_t>(p);
        for (const std::uint32_t m : {ranks, 2 * ranks, 4 * ranks}) {
          const Ns full = (p - 1) * (forward + backward);
          EXPECT_EQ(bubble(made(ScheduleKind::kGpipe, ranks, m), forward, backward, 100), full);
          EXPECT_EQ(bubble(made(ScheduleKind::kOneForwardOneBackward, ranks, m), forward, backward, 100), full);
          for (const std::uint32_t v : {2U, 4U}) {
            const auto s = made(ScheduleKind::kInterleaved, ranks, m, v);
            EXPECT_EQ(bubble(s, forward, backward, 100), full);  // forward and backward are a chunk's here
          }
        }
      }
    }
  }
  for (const std::int64_t p : {2, 4, 8}) {
    const auto ranks = static_cast<std::uint32_t>(p);
    EXPECT_EQ(bubble(made(ScheduleKind::kZeroBubble, ranks, 4 * ranks), 100, 200, 100),
              (p - 1) * (100 + 200 - 2 * 100));
  }
}

// (p/2 - 1)(F&B + B - 3W), F&B being a pair's time: here the sum of both.
TEST(PipelineSchedule, DualPipesBubbleIsThatOfItsClosedForm) {
  for (const std::int64_t p : {2, 4, 8}) {
    const auto ranks = static_cast<std::uint32_t>(p);
    EXPECT_EQ(bubble(made(ScheduleKind::kDualPipe, ranks, 4 * ranks, 2), 100, 200, 100),
              (p / 2 - 1) * (300 + 200 - 3 * 100));
  }
}

// 1F1B: rank r of p holds p - r. Interleaved: p(v - 1) + 2(p - r) - 1 chunks. ZB1P as 1F1B with its postponed gradients;
// DualPipe p + 1 of both directions.
TEST(PipelineSchedule, ActivationsInFlightAreThoseOfTheClosedForms) {
  const auto sum = [](const std::vector<std::uint32_t>& v) { return std::accumulate(v.begin(), v.end(), 0U); };
  for (const std::uint32_t p : {2U, 4U, 8U}) {
    const std::uint32_t m = 4 * p;
    for (std::uint32_t r = 0; r < p; ++r) {
      EXPECT_EQ(sum(made(ScheduleKind::kGpipe, p, m).most_in_flight(r)), m);
      EXPECT_EQ(sum(made(ScheduleKind::kOneForwardOneBackward, p, m).most_in_flight(r)), p - r);
      for (const std::uint32_t v : {2U, 4U}) {
        EXPECT_EQ(sum(made(ScheduleKind::kInterleaved, p, m, v).most_in_flight(r)), p * (v - 1) + 2 * (p - r) - 1);
      }
      EXPECT_EQ(sum(made(ScheduleKind::kZeroBubble, p, m).most_in_flight(r)), p);
      EXPECT_EQ(sum(made(ScheduleKind::kDualPipe, p, m, 2).most_in_flight(r)), p + 1);
    }
  }
}

TEST(PipelineSchedule, ATransferDelaysTheNextStageAndABusyCpuTheRank) {
  const auto s = made(ScheduleKind::kOneForwardOneBackward, 2, 1);
  auto costs = equal(s, 10, 20, 10);
  costs.transfer[0] = 3;
  EXPECT_EQ(simulate::run_pipeline(s, costs).end, 10 + 3 + 30 + 3 + 20);
  for (auto& stage : costs.stages) stage.forward_cpu = stage.backward_cpu = 50;
  // Launches run ahead of what they wait for: each rank's CPU needs 100, and rank 0's backward its 20 after the arrival.
  EXPECT_EQ(simulate::run_pipeline(s, costs).end, 100 + 3 + 20);
}

TEST(PipelineSchedule, ASlowStageIsWhatAllWaitFor) {
  const auto s = made(ScheduleKind::kOneForwardOneBackward, 4, 32);
  auto costs = equal(s, 10, 20, 10);
  costs.stages[3] = {.forward = 20, .backward = 40, .weight = 20};
  EXPECT_EQ(simulate::run_pipeline(s, costs).end, 32 * 60 + 3 * 30);
}

TEST(PipelineSchedule, RefusesWhatItCannotDo) {
  const auto why = [](simulate::PipelineShape shape) {
    auto s = simulate::make_pipeline_schedule(shape);
    return s ? std::string() : s.error().message;
  };
  EXPECT_THAT(why({ScheduleKind::kGpipe, 2, 4, 2}), ::testing::HasSubstr("one chunk"));
  EXPECT_THAT(why({ScheduleKind::kInterleaved, 2, 4, 1}), ::testing::HasSubstr("chunks=2"));
  EXPECT_THAT(why({ScheduleKind::kInterleaved, 4, 9, 2}), ::testing::HasSubstr("9 micro-batches into 2 equal rounds"));
  EXPECT_EQ(why({ScheduleKind::kInterleaved, 4, 10, 2}), "");
  EXPECT_THAT(why({ScheduleKind::kDualPipe, 3, 12, 2}), ::testing::HasSubstr("even number of stages"));
  EXPECT_THAT(why({ScheduleKind::kDualPipe, 4, 6, 2}), ::testing::HasSubstr("twice the stages"));
  EXPECT_FALSE(simulate::schedule_named("zb2p"));
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb1p", "dualpipe"}) {
    EXPECT_EQ(simulate::name_of(*simulate::schedule_named(name)), name);
  }
}

}  // namespace
}  // namespace foretrace::test
