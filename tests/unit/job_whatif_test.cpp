// What-ifs on all ranks of a job: changes made on each rank, and all of them simulated together.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/overview/overview.hpp"
#include "foretrace/report/export.hpp"
#include "ranks/exchange.hpp"
#include "scripted_job.hpp"
#include "whatif/job/job_models.hpp"
#include "whatif/job/nearest_network.hpp"
#include "whatif/job/network_costs.hpp"
#include "whatif/rewrite/scaling.hpp"

namespace foretrace::test {
namespace {

using analysis::Baseline;
using ::testing::HasSubstr;
using whatif::Prediction;

// Two passes of products with a reduction of gradients behind each of the last ones; rank 1 takes `late` longer for its products.
ScriptedJob data_parallel(std::size_t ranks, Ns late = 0, int steps = 3) {
  ScriptedJob m(ranks);
  for (int s = 0; s < steps; ++s) {
    for (std::size_t r = 0; r < ranks; ++r) {
      const Ns takes = kNsPerMs + (r == 1 ? late : 0);
      for (int i = 0; i < 6; ++i) m.compute(r, "gemm", takes);
      for (int i = 0; i < 6; ++i) {
        m.compute(r, "gemm", takes, true);
        if (ranks > 1 && i % 2 == 1) m.collective(r, {.elements = 1000 * (i + 1)}, true);
      }
    }
    m.step();
  }
  return m;
}

Baseline baseline_of(const ranks::Job& job, const std::vector<std::int64_t>& only = {},
                     std::optional<double> measured = {}) {
  auto made = analysis::make_baseline(job, std::nullopt, host::UserMeasurements(measured), only);
  EXPECT_TRUE(made) << made.error().to_string();
  return made ? std::move(*made) : Baseline{};
}

Prediction ask(const Baseline& baseline, const std::string& change) {
  auto use = whatif::parse_use(change);
  EXPECT_TRUE(use) << use.error().to_string();
  return analysis::predict(baseline, {*use});
}

TEST(JobWhatIf, TheFasterRankWaitsForTheSlowerOne) {
  ScriptedJob m = data_parallel(2, kNsPerMs / 2);
  const ranks::Job job = m.job();
  const Baseline today = baseline_of(job);
  ASSERT_TRUE(today.figures.job);
  const auto& ranks = today.figures.job->ranks;
  ASSERT_EQ(ranks.size(), 2u);
  // Six forward and two backward products of half a millisecond each before the first reduction, two before each further one.
  EXPECT_NEAR(to_ms(ranks[0].wait), 6.0, 0.1);
  EXPECT_LT(to_ms(ranks[1].wait), 0.01);
  EXPECT_EQ(ranks[1].waited_for, 3u);
  EXPECT_NEAR(to_ms(today.figures.unprofiled), 18.7, 0.2);
}

TEST(JobWhatIf, AChangeOfOneRankMovesTheOther) {
  ScriptedJob m = data_parallel(2, kNsPerMs / 2);
  const ranks::Job job = m.job();
  const Prediction both = ask(baseline_of(job), "duration:select=gemm,x=0.5");
  const Prediction slower = ask(baseline_of(job, {1}), "duration:select=gemm,x=0.5");
  const Prediction faster = ask(baseline_of(job, {0}), "duration:select=gemm,x=0.5");
  ASSERT_EQ(both.declined + slower.declined + faster.declined, "");
  // Rank 1 with products of 0.75 ms waits for rank 0 with 1 ms.
  EXPECT_NEAR(to_ms(slower.step), 12.7, 0.2);
  EXPECT_NEAR(to_ms(both.step), 9.7, 0.2);
  EXPECT_NEAR(to_ms(faster.step), 18.7, 0.2);
  EXPECT_GT(slower.ranks[1].wait, slower.ranks[0].wait);
}

TEST(JobWhatIf, WithoutTheStragglerAllComputeLikeTheMedianRank) {
  ScriptedJob m = data_parallel(3, kNsPerMs / 2);
  const ranks::Job job = m.job();
  const Prediction even = ask(baseline_of(job), "no-straggler");
  ASSERT_EQ(even.declined, "");
  // Twelve products of 1 ms instead of rank 1's 1.5 ms.
  EXPECT_NEAR(to_ms(even.step), 12.7, 0.2);
  for (const whatif::RankTime& rank : even.ranks) EXPECT_LT(to_ms(rank.wait), 0.1);
  // Made on a rank that is not late, it changes nothing.
  EXPECT_NEAR(to_ms(ask(baseline_of(job, {0}), "no-straggler").step), 18.7, 0.2);
}

TEST(JobWhatIf, WorkThatOnlyTheStragglerHasIsTakenOut) {
  ScriptedJob m(2);
  for (int s = 0; s < 3; ++s) {
    for (std::size_t r = 0; r < 2; ++r) {
      for (int i = 0; i < 6; ++i) {
        m.compute(r, "gemm", kNsPerMs);
        if (r == 1) m.compute(r, i < 3 ? "gemm" : "extra", kNsPerMs);
      }
      m.collective(r, {.elements = 1000}, true);
    }
    m.step();
  }
  const ranks::Job job = m.job();
  const Baseline today = baseline_of(job);
  EXPECT_NEAR(to_ms(today.figures.unprofiled), 12.2, 0.2);
  const Prediction even = ask(today, "no-straggler");
  ASSERT_EQ(even.declined, "");
  // Six products on both ranks: three of the same kernel and three of another are left out of rank 1.
  EXPECT_NEAR(to_ms(even.step), 6.2, 0.2);
}

TEST(Exchange, WhatHasNoPartnerCostsWhatTheOtherHasWithoutOne) {
  const std::map<std::string, std::vector<std::uint32_t>> mine{{"gemm", {0, 1}}, {"extra", {2}}};
  const std::map<std::string, std::vector<std::uint32_t>> theirs{{"gemm", {0}}, {"conv", {1, 2}}};
  const std::vector<Ns> here{500, 500, 800}, there{300, 200, 200};
  auto costs = ranks::exchange(mine, here, theirs, there);
  std::sort(costs.begin(), costs.end());
  EXPECT_THAT(costs, testing::ElementsAre(std::pair(0U, Ns{300}), std::pair(1U, Ns{500 * 400 / 1300}),
                                          std::pair(2U, Ns{800 * 400 / 1300})));
  // All that is left of the other's work is dearer than what is here: nothing gets slower by its lack of a partner.
  costs = ranks::exchange(mine, here, theirs, std::vector<Ns>{300, 2000, 2000});
  std::sort(costs.begin(), costs.end());
  EXPECT_THAT(costs, testing::ElementsAre(std::pair(0U, Ns{300}), std::pair(1U, Ns{500}), std::pair(2U, Ns{800})));
}

TEST(JobWhatIf, AnotherNetworkChangesTransfersOnly) {
  ScriptedJob m = data_parallel(2);
  const ranks::Job job = m.job();
  const Baseline today = baseline_of(job);
  const std::string was = "was=" + whatif::usual_fabric(today.model.device);
  const Prediction slow = ask(today, "network:fabric=10GbE,gpus_per_node=1," + was);
  ASSERT_EQ(slow.declined, "");
  EXPECT_GT(slow.ranks[0].transfer, today.figures.job->ranks[0].transfer);
  EXPECT_EQ(slow.ranks[0].gpu_time, today.figures.job->ranks[0].gpu_time);
  // Both ranks in one node: the network between nodes does not matter.
  EXPECT_THAT(ask(today, "network:fabric=10GbE,gpus_per_node=2," + was).declined,
              HasSubstr("nothing in this step would change"));
  EXPECT_THAT(ask(today, "network:" + was).declined, HasSubstr("nothing in this step would change"));
}

// Measured all-reduces of two ranks, all of them `ms` long.
std::string all_reduces_of(const char* tag, double ms) {
  return fmt::format(
      "{{\"tag\":\"{0}\",\"world\":2,\"coll\":\"all_reduce\",\"mb\":0.001,\"ms\":{1}}}\n"
      "{{\"tag\":\"{0}\",\"world\":2,\"coll\":\"all_reduce\",\"mb\":64,\"ms\":{1}}}\n",
      tag, ms);
}

TEST(JobWhatIf, LongerTransfersSlowTheKernelsThatComeToRunNextToThem) {
  ScriptedJob m(2);
  for (int s = 0; s < 3; ++s) {
    for (std::size_t r = 0; r < 2; ++r) {
      for (int i = 0; i < 4; ++i) m.compute(r, "gemm", kNsPerMs);
      m.collective(r, {.elements = 1000, .overlaps = true}, true);
      for (int i = 0; i < 4; ++i) m.compute(r, "gemm", kNsPerMs, true);
    }
    m.step();
  }
  const ranks::Job job = m.job();
  const Baseline today = baseline_of(job);
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "foretrace-network-overlap-test.jsonl";
  std::ofstream(file) << all_reduces_of("2ms", 2) << all_reduces_of("3ms", 3) << all_reduces_of("none", 0.001);
  const auto gpu_time = [&](const std::string& tag) {
    const Prediction p = ask(today, "network:collectives=" + file.string() + ",collectives_tag=" + tag);
    EXPECT_EQ(p.declined, "");
    return p.ranks[0].gpu_time;
  };
  const Ns now = today.figures.job->ranks[0].gpu_time;
  EXPECT_LT(gpu_time("none"), now);  // what ran next to the transfer of 0.2 ms is alone
  const Ns two = gpu_time("2ms") - now, three = gpu_time("3ms") - now;
  EXPECT_GT(two, 0);
  EXPECT_NEAR(static_cast<double>(three) / static_cast<double>(two), 2.8 / 1.8,
              0.2);  // as much more as longer than today
  std::filesystem::remove(file);
}

TEST(JobWhatIf, WhatTheNetworkDoesNotExplainStays) {
  const whatif::NetworkTimes times{.here = 100, .there = 400};
  EXPECT_DOUBLE_EQ(times.factor(50), 4);             // faster than modelled: all of it follows the models
  EXPECT_DOUBLE_EQ(times.factor(300), 600.0 / 300);  // 100 become 400, 200 stay
  EXPECT_DOUBLE_EQ(times.factor(0), 1);
  EXPECT_DOUBLE_EQ(times.factor(300, true), 4);  // measured exactly: kernels slow it as much there
  const whatif::NetworkTimes unnamed{.there = 400};
  EXPECT_DOUBLE_EQ(unnamed.factor(300), 400.0 / 300);  // nobody said what network this is: all of it is replaced
  // Half of the measured call of 40 was no transfer, and half of the one of 60 on the other network is none: 80 of 100, 370 of 400.
  const whatif::NetworkTimes calls{.here = 100, .there = 400, .here_call = 40, .there_call = 60};
  EXPECT_DOUBLE_EQ(calls.factor(80), 370.0 / 80);
  EXPECT_DOUBLE_EQ(calls.factor(100), 4);
  EXPECT_DOUBLE_EQ(calls.factor(30), 340.0 / 60);  // the whole call
}

TEST(JobWhatIf, ARecordingWhoseNetworkNobodyNamesRanOnTheOneWithItsTimes) {
  ScriptedJob m = data_parallel(2);
  const ranks::Job job = m.job();
  const trace::Trace& trace = job.ranks[0].trace;
  const hardware::Device device = *hardware::find_device("H200-SXM");
  for (const char* name : {"10GbE", "100GbE-RDMA", "DGX-H200"}) {
    const auto was = whatif::PlacedNetwork::make({.fabric = name, .gpus_per_node = 1}, device);
    ASSERT_TRUE(was);
    whatif::TransferTimes recorded;
    for (const ranks::Operation& op : ranks::operations_of(trace, 0)) {
      recorded[op.event] = 1.1 * static_cast<double>(was->cost(op, {0, 1})->ns);
    }
    const auto nearest = whatif::PlacedNetwork::make(whatif::nearest_network(trace, recorded, device), device);
    ASSERT_TRUE(nearest);
    for (const ranks::Operation& op : ranks::operations_of(trace, 0)) {
      const double ns = static_cast<double>(nearest->cost(op, {0, 1})->ns);
      EXPECT_NEAR(ns / recorded[op.event], 1, 0.11) << name;
    }
  }
  EXPECT_EQ(whatif::nearest_network(trace, {}, device).fabric,
            whatif::usual_fabric(device));  // nothing to tell it from
}

TEST(JobWhatIf, CollectivesMeasuredOnTheOtherNetworkReplaceRecordedTransfers) {
  ScriptedJob m = data_parallel(2);
  const ranks::Job job = m.job();
  const Baseline today = baseline_of(job);
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "foretrace-network-test.jsonl";
  std::ofstream(file) << all_reduces_of("slow", 20) << all_reduces_of("here", 10);
  const std::string measured = "network:collectives=" + file.string() + ",collectives_tag=slow";
  const Prediction replaced = ask(today, measured);
  ASSERT_EQ(replaced.declined, "");
  const Ns collectives = replaced.ranks[0].transfer / (20 * kNsPerMs);
  EXPECT_GT(collectives, 0);
  EXPECT_EQ(replaced.ranks[0].transfer, collectives * 20 * kNsPerMs);  // each takes what was measured
  EXPECT_THAT(replaced.not_modelled, testing::Contains(HasSubstr("the network of the recording was not named")));
  // Both networks were measured, and transfers here are shorter than that: they take twice as long.
  const Prediction twice = ask(today, measured + ",was_collectives=" + file.string() + ",was_collectives_tag=here");
  ASSERT_EQ(twice.declined, "");
  EXPECT_NEAR(static_cast<double>(twice.ranks[0].transfer) / static_cast<double>(today.figures.job->ranks[0].transfer),
              2, 1e-3);
  EXPECT_FALSE(whatif::parse_use("network:was_collectives_tag=here"));
  std::filesystem::remove(file);
}

TEST(JobWhatIf, BlocksThatRunAgainReduceTheirActivationsAgain) {
  ScriptedJob m(2);
  m.descriptions["0"] = "mesh_tp";
  const ScriptedJob::Call reduced{.elements = 8 * 1024 * 64, .dims = "[[8, 1024, 64]]"};
  for (int s = 0; s < 3; ++s) {
    for (std::size_t r = 0; r < 2; ++r) {
      for (int block = 0; block < 4; ++block) {
        for (const char* kernel : {"query", "out"}) m.compute(r, kernel, kNsPerMs);
        m.collective(r, reduced);
        for (const char* kernel : {"up", "down"}) m.compute(r, kernel, kNsPerMs);
      }
      for (int block = 0; block < 4; ++block) {
        for (const char* kernel : {"down_grad", "up_grad", "out_grad", "query_grad"})
          m.compute(r, kernel, kNsPerMs, true);
        m.collective(r, reduced, true);
      }
    }
    m.step();
  }
  const ranks::Job job = m.job();
  const Baseline today = baseline_of(job);
  const Prediction again = ask(today, "checkpoint");
  ASSERT_EQ(again.declined, "");
  // Eight reductions in a step, and those of the four forward passes again.
  EXPECT_NEAR(static_cast<double>(again.ranks[0].transfer) / static_cast<double>(today.figures.job->ranks[0].transfer),
              1.5, 0.01);
}

TEST(JobWhatIf, StagesAreBalancedInPipelinesOnly) {
  ScriptedJob m = data_parallel(2);
  const ranks::Job job = m.job();
  EXPECT_THAT(ask(baseline_of(job), "stage-balance").declined, HasSubstr("no pipeline"));
}

TEST(JobWhatIf, EqualRanksWithFreeCommunicationAreOneRank) {
  ScriptedJob pair = data_parallel(2);
  pair.transfer = 0;
  const ranks::Job two = pair.job();
  ScriptedJob single = data_parallel(1);
  const std::vector<trace::Trace> one = single.traces();
  const auto alone = analysis::make_baseline(one[0], std::nullopt, {});
  ASSERT_TRUE(alone) << alone.error().to_string();
  const Baseline together = baseline_of(two);
  // Three kernels that move nothing are left of the communication.
  EXPECT_NEAR(to_ms(together.figures.unprofiled), to_ms(alone->figures.unprofiled), 0.7);
}

TEST(JobWhatIf, AJobOfOneRankIsItsTrace) {
  ScriptedJob single = data_parallel(1);
  const ranks::Job job = single.job();
  const Baseline as_job = baseline_of(job);
  const auto as_trace = analysis::make_baseline(job.ranks[0].trace, std::nullopt, {});
  ASSERT_TRUE(as_trace) << as_trace.error().to_string();
  EXPECT_EQ(as_job.figures.unprofiled, as_trace->figures.unprofiled);
  for (const char* change : {"duration:select=gemm,x=0.5", "cpu:x=2"}) {
    const Prediction a = ask(as_job, change), b = ask(*as_trace, change);
    EXPECT_EQ(a.step, b.step) << change;
    EXPECT_EQ(a.low, b.low) << change;
    EXPECT_EQ(a.high, b.high) << change;
  }
}

TEST(JobWhatIf, TheOrderOfFilesDoesNotMatter) {
  ScriptedJob m = data_parallel(3, kNsPerMs / 4);
  std::vector<trace::Trace> forward = m.traces(), backward = m.traces();
  std::reverse(backward.begin(), backward.end());
  const auto a = ranks::assemble(std::move(forward)), b = ranks::assemble(std::move(backward));
  ASSERT_TRUE(a && b);
  const Prediction x = ask(baseline_of(*a), "bandwidth:x=0.5"), y = ask(baseline_of(*b), "bandwidth:x=0.5");
  EXPECT_EQ(x.step, y.step);
  EXPECT_EQ(x.low, y.low);
  EXPECT_EQ(x.high, y.high);
}

TEST(JobWhatIf, ASlowerLinkNeverShortensTheStep) {
  ScriptedJob m = data_parallel(2, kNsPerMs / 4);
  const ranks::Job job = m.job();
  const Baseline today = baseline_of(job);
  Ns before = 0;
  for (const char* change : {"bandwidth:x=8", "bandwidth:x=2", "bandwidth:x=0.5", "bandwidth:x=0.1"}) {
    const Prediction p = ask(today, change);
    ASSERT_EQ(p.declined, "");
    EXPECT_GE(p.step, before) << change;
    before = p.step;
  }
  // Three transfers of 0.2 ms that nothing hides take ten times as long.
  EXPECT_NEAR(to_ms(before - today.figures.unprofiled), 5.4, 0.1);
}

TEST(JobWhatIf, WhatReplacesTheCommunicationIsDeclined) {
  ScriptedJob m = data_parallel(2);
  const ranks::Job job = m.job();
  const Prediction p = ask(baseline_of(job), "ddp:workers=8,fabric=DGX-H100");
  EXPECT_NE(p.declined, "");
}

TEST(JobWhatIf, ActivationsGrowWithTheBatchAndGradientsDoNot) {
  ScriptedJob m(2);
  for (int s = 0; s < 3; ++s) {
    for (std::size_t r = 0; r < 2; ++r) {
      m.compute(r, "gemm", kNsPerMs);
      m.collective(r, {.elements = 8 * 64, .dims = "[[[8, 16, 4]]]"});  // what tensor parallelism reduces
      m.compute(r, "gemm", kNsPerMs, true);
      m.collective(r, {.elements = 1000, .dims = "[[[1000]]]"}, true);  // a bucket of gradients
      m.collective(r, {.elements = 3000}, true);                        // nothing says what it holds
    }
    m.step();
  }
  const ranks::Job job = m.job();
  const Baseline today = baseline_of(job);
  const whatif::Model& rank = *today.model.job->ranks.front();
  std::vector<bool> moves;
  for (std::uint32_t t = 0; t < rank.graph.size(); ++t) {
    if (rank.graph.kind[t] == graph::TaskKind::kCollective) moves.push_back(whatif::moves_samples(rank, t));
  }
  EXPECT_THAT(moves, ::testing::ElementsAre(true, false, false));
}

TEST(JobWhatIf, AMeasuredStepIsWhatTheJobTakesToday) {
  ScriptedJob m = data_parallel(2);
  const ranks::Job job = m.job();
  const double simulated = to_ms(baseline_of(job).figures.unprofiled);
  const Baseline today = baseline_of(job, {}, 1.1 * simulated);
  const Prediction p = ask(today, "duration:select=gemm,x=0.999");
  EXPECT_NEAR(to_ms(p.step), 1.1 * simulated, 0.02 * simulated);
}

TEST(JobWhatIf, ARankThatIsNotThereCannotBeChanged) {
  ScriptedJob m = data_parallel(2);
  const ranks::Job job = m.job();
  const auto made = analysis::make_baseline(job, std::nullopt, {}, {7});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("no trace of rank 7"));
}

TEST(JobExport, AChangedJobIsDrawnAsItIsPredicted) {
  ScriptedJob m = data_parallel(2, kNsPerMs / 2);
  const ranks::Job job = m.job();
  const auto changed = overview::changed_job(job, std::nullopt, {"duration:select=gemm,x=0.5"});
  ASSERT_TRUE(changed) << changed.error().to_string();
  EXPECT_EQ(changed->step.replayed(), ask(baseline_of(job), "duration:select=gemm,x=0.5").step);
  ASSERT_EQ(changed->ranks.size(), 2u);
  ASSERT_EQ(changed->meetings.size(), 3u);
  Ns waits = 0;  // of rank 0, which is the faster one
  for (const auto& meeting : changed->meetings) {
    EXPECT_THAT(meeting.name, HasSubstr("all-reduce"));
    for (const auto& member : meeting.members) {
      if (member.rank == 0) waits += changed->step.start(member.transfer) - changed->step.start(member.arrive);
    }
  }
  EXPECT_NEAR(to_ms(waits), 3.0, 0.1);  // half of what it waits today
  const auto file = report::export_changed_job(*changed);
  ASSERT_TRUE(file);
  EXPECT_THAT(file->bytes, HasSubstr("rank 1 simulated"));
  EXPECT_THAT(file->bytes, HasSubstr("(waits for other ranks)"));
  EXPECT_FALSE(report::export_changed_job(*changed, {.format = "csv"}));
}

TEST(JobExport, AChangeThatDoesNotApplyIsDeclined) {
  ScriptedJob m = data_parallel(2);
  const ranks::Job job = m.job();
  const auto changed = overview::changed_job(job, std::nullopt, {"flash-attention"});
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, ErrorCode::kDeclined);
}

}  // namespace
}  // namespace foretrace::test
