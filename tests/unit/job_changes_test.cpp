// Changes that all ranks of a job must make together, on recorded jobs of data/h200-jobs: their measured rows are in rows.jsonl.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <numeric>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/search/optimize.hpp"
#include "scripted_job.hpp"
#include "whatif/job/job_models.hpp"

namespace foretrace::test {
namespace {

using analysis::Baseline;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using whatif::Prediction;

/// A recorded job of two ranks, kept alive with its baseline.
struct Recorded {
  ranks::Job job;
  Baseline today;
};

const Recorded& recorded(const std::string& name) {
  static std::map<std::string, Recorded> all;
  const auto [at, added] = all.try_emplace(name);
  if (!added) return at->second;
  const std::string path = std::string(FORETRACE_SOURCE_DIR "/data/h200-jobs/") + name + ".w2.r";
  auto job = ranks::load_job({path + "0.json.gz", path + "1.json.gz"});
  EXPECT_TRUE(job) << job.error().to_string();
  if (!job) return at->second;
  at->second.job = std::move(*job);
  auto made = analysis::make_baseline(at->second.job, std::nullopt, {});
  EXPECT_TRUE(made) << made.error().to_string();
  if (made) at->second.today = std::move(*made);
  return at->second;
}

Prediction ask(const Baseline& today, const std::string& change) {
  auto use = whatif::parse_use(change);
  EXPECT_TRUE(use) << use.error().to_string();
  return analysis::predict(today, {*use});
}

Prediction ask(const std::string& job, const std::string& change) { return ask(recorded(job).today, change); }

Ns gpu_time(const Prediction& p) {
  return std::accumulate(p.ranks.begin(), p.ranks.end(), Ns{0},
                         [](Ns sum, const whatif::RankTime& r) { return sum + r.gpu_time; });
}

// Five of eight layers on the first stage: its CPU takes longer, its GPU hardly, because the head is on the other one.
TEST(JobChanges, StagesAreBalancedByWhatLimitsThem) {
  const char* const job = "lmA.inside.pp4-cut5-3";
  const Prediction p = ask(job, "stage-balance");
  ASSERT_EQ(p.declined, "");
  EXPECT_LT(to_ms(p.step), 0.9 * to_ms(recorded(job).today.figures.unprofiled));
}

// Whole layers move: a split that was named, the best one, and the one that is there.
TEST(JobChanges, LayersMoveBetweenStages) {
  const char* const job = "lmA.inside.pp4-cut5-3";
  const Prediction best = ask(job, "stage-balance"), even = ask(job, "stage-balance:layers=4|4");
  ASSERT_EQ(even.declined, "");
  EXPECT_LE(best.step, even.step);
  const Prediction reversed = ask(job, "stage-balance:layers=1|7");
  ASSERT_EQ(reversed.declined, "");
  EXPECT_GT(reversed.step, even.step);
  EXPECT_THAT(ask(job, "stage-balance:layers=5|3").declined, HasSubstr("already"));
  EXPECT_THAT(ask(job, "stage-balance:layers=5|4").declined, HasSubstr("8 layers on 2 stages"));
  EXPECT_THAT(ask(job, "stage-balance:layers=3|3|2").declined, HasSubstr("8 layers on 2 stages"));
  for (const char* wrong : {"stage-balance:layers=8|0", "stage-balance:layers=4.5|3.5", "stage-balance:layers=a|b"})
    EXPECT_FALSE(whatif::parse_use(wrong)) << wrong;
}

TEST(JobChanges, OtherSpellingsAreTheSameChange) {
  EXPECT_EQ(whatif::parse_use("pp:balance")->text, "stage-balance");
  EXPECT_EQ(whatif::parse_use("fabric=10GbE,gpus_per_node=1")->text, "network:fabric=10GbE,gpus_per_node=1");
}

// Only the first stage looks tokens up; the others compute on as many positions.
TEST(JobChanges, SequencesAreAsLongOnEveryStage) {
  const Prediction longer = ask("gptB.inside.pp4", "sequence:x=2");
  ASSERT_EQ(longer.declined, "");
  EXPECT_THAT(longer.not_modelled, ::testing::Not(Contains(HasSubstr("stays as it is"))));
  const auto& today = recorded("gptB.inside.pp4").today.figures.job->ranks;
  ASSERT_EQ(longer.ranks.size(), today.size());
  for (std::size_t r = 0; r < today.size(); ++r) {
    EXPECT_GT(to_ms(longer.ranks[r].gpu_time), 1.4 * to_ms(today[r].gpu_time)) << r;
  }
}

// Rank 1 has no backward pass to divide: then no rank is divided, for their samples would no longer match.
TEST(JobChanges, WhatConcernsEveryRankIsMadeOnAllOrNone) {
  ScriptedJob m(2);
  for (int s = 0; s < 3; ++s) {
    for (std::size_t r = 0; r < 2; ++r) {
      for (int i = 0; i < 4; ++i) m.compute(r, "gemm", kNsPerMs);
      for (int i = 0; i < 4 && r == 0; ++i) m.compute(r, "gemm", kNsPerMs, true);
      m.collective(r, {.elements = 1000});
    }
    m.step();
  }
  const ranks::Job job = m.job();
  const auto today = analysis::make_baseline(job, std::nullopt, {});
  ASSERT_TRUE(today) << today.error().to_string();
  EXPECT_THAT(ask(*today, "accumulate:n=2").declined, HasSubstr("all ranks have to change, and rank 1"));
}

// Recorded with 25 MiB, as the gradients became ready: asked for again, that is the job as it is.
TEST(JobChanges, BucketsInTheRecordedOrderChangeNothing) {
  const char* const job = "gptB.inside.ddp";
  const Ns today = recorded(job).today.figures.unprofiled;
  const Prediction same = ask(job, "bucket:mb=25,order=ready");
  ASSERT_EQ(same.declined, "");
  EXPECT_EQ(same.step, ask(job, "bucket:mb=25").step);
  EXPECT_NEAR(to_ms(same.step), to_ms(today), 0.01 * to_ms(today));
}

// The first parameters' gradients come last: buckets that begin with them wait for the whole backward pass.
TEST(JobChanges, BucketsInForwardOrderWaitForTheEndOfBackward) {
  const char* const job = "gptB.inside.ddp";
  const auto step = [&](const std::string& order) {
    const Prediction p = ask(job, "bucket:mb=25,order=" + order);
    EXPECT_EQ(p.declined, "") << order;
    return p.step;
  };
  EXPECT_GT(step("forward"), step("ready") * 102 / 100);
  EXPECT_GE(step("forward"), step("reverse"));
  // Without names of modules backward is taken to go through the parameters from the last one.
  EXPECT_EQ(step("reverse"), step("ready"));
  // In one bucket there is no order.
  EXPECT_EQ(ask(job, "bucket:mb=100000,order=forward").step, ask(job, "bucket:mb=100000").step);
}

TEST(JobChanges, AJobIsDividedIntoNoFurtherStages) {
  EXPECT_THAT(ask("gptB.inside.ddp", "pp:stages=2").declined, HasSubstr("pp: stages are made of the step of one GPU"));
}

// What the passes before the last one add up is not in DDP's buckets.
TEST(JobChanges, AccumulatedGradientsAreKeptNextToTheBuckets) {
  const Prediction p = ask("gptB.inside.ddp", "accumulate:n=2");
  ASSERT_EQ(p.declined, "");
  EXPECT_NEAR(static_cast<double>(*p.peak_bytes), 7.274e9, 0.03 * 7.274e9);
}

TEST(JobChanges, ShardedParametersAreGatheredInEveryPassAndBucketsReducedInTheLast) {
  for (const auto& [job, times] : {std::pair("gptB.inside.fsdp", 2.0), std::pair("gptB.inside.ddp", 1.0)}) {
    const auto& ranks = recorded(job).today.figures.job->ranks;
    const Prediction p = ask(job, "accumulate:n=2");
    ASSERT_EQ(p.declined, "") << job;
    EXPECT_NEAR(to_ms(p.ranks[0].transfer), times * to_ms(ranks[0].transfer), 0.1 * to_ms(ranks[0].transfer)) << job;
  }
}

TEST(JobChanges, MemoryFollowsThePassesOfAnotherSchedule) {
  const Prediction all_forward = ask("gptB.inside.pp4", "pipeline:schedule=gpipe");
  const Prediction smaller = ask("gptB.inside.pp4", "pipeline:microbatches=8");
  ASSERT_EQ(all_forward.declined + smaller.declined, "");
  const std::array<double, 2> forward_gb = {2.928, 4.238}, smaller_gb = {2.673, 3.241};
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_NEAR(static_cast<double>(*all_forward.ranks[r].peak_bytes) / 1e9, forward_gb[r], 0.04 * forward_gb[r]) << r;
    EXPECT_NEAR(static_cast<double>(*smaller.ranks[r].peak_bytes) / 1e9, smaller_gb[r], 0.04 * smaller_gb[r]) << r;
  }
}

// In FP32 PyTorch computes attention with grouped queries from its parts, in half precision in one kernel.
TEST(JobChanges, AttentionThatFp32ComputesFromItsPartsIsFusedInHalfPrecision) {
  const Prediction half = ask("lmA.inside.ddp-fp32", "amp:dtype=bf16");
  ASSERT_EQ(half.declined, "");
  EXPECT_NEAR(to_ms(half.step), 50.75, 0.12 * 50.75);
  EXPECT_NEAR(static_cast<double>(*half.peak_bytes) / 1e9, 9.11, 0.08 * 9.11);
}

TEST(JobChanges, CompressedGradientsTravelFaster) {
  const auto& today = recorded("gptB.inside.ddp").today;
  const Prediction half = ask(today, "compress-gradients:method=fp16");
  ASSERT_EQ(half.declined, "");
  EXPECT_LT(half.ranks[0].transfer, today.figures.job->ranks[0].transfer);
  EXPECT_GT(gpu_time(half), today.figures.job->ranks[0].gpu_time + today.figures.job->ranks[1].gpu_time);
  EXPECT_FALSE(half.validated);
  EXPECT_THAT(ask(today, "compress-gradients:method=topk").declined, HasSubstr("gather"));
}

// The moves that only a job has: the answer is no worse than one of them alone, and says so as code.
TEST(JobChanges, TheSearchTriesWhatOnlyAJobHas) {
  const char* const job = "lmA.inside.pp4-cut5-3";
  search::OptimizeOptions options;
  options.only = {"stage-balance", "pipeline", "bucket", "compress-gradients"};
  options.evaluations = 40;
  const auto found = search::optimize(recorded(job).today, options);
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_LE(found->prediction.step, ask(job, "stage-balance").step);
  EXPECT_LT(found->prediction.step, found->baseline);
  ASSERT_FALSE(found->parts.empty());
  for (const search::OptimizedPart& part : found->parts) EXPECT_FALSE(part.code.empty()) << part.text;

  const auto of_data_parallel = search::optimize(recorded("gptB.inside.ddp").today, options);
  ASSERT_TRUE(of_data_parallel) << of_data_parallel.error().to_string();
  EXPECT_GT(of_data_parallel->evaluations, 5U);  // sizes of buckets and half precision
  EXPECT_THAT(of_data_parallel->declined, IsEmpty());

  // What tensor parallelism reduces are no gradients: nothing of all that is tried.
  const auto of_tensor_parallel = search::optimize(recorded("gptB.inside.tp").today, options);
  ASSERT_TRUE(of_tensor_parallel) << of_tensor_parallel.error().to_string();
  EXPECT_THAT(of_tensor_parallel->declined, IsEmpty());
}

// Tensor parallel 2 × data parallel 2. In every other layer the first rank of a pair is late, in the others the second.
ScriptedJob pairs() {
  ScriptedJob m(4);
  m.groups = {{"0", {0, 1, 2, 3}}, {"tp0", {0, 1}}, {"tp1", {2, 3}}, {"dp0", {0, 2}}, {"dp1", {1, 3}}};
  for (int s = 0; s < 3; ++s) {
    for (std::size_t r = 0; r < 4; ++r) {
      for (int i = 0; i < 12; ++i) {
        const bool backward = i >= 6;
        m.compute(r, "gemm", kNsPerMs + (i % 2 == static_cast<int>(r % 2) ? kNsPerMs / 2 : 0), backward);
        m.collective(r, {.group = r < 2 ? "tp0" : "tp1", .elements = 8 * 64 * 1000, .dims = "[[[8, 64, 1000]]]"},
                     backward);
      }
      m.collective(r, {.group = r % 2 == 0 ? "dp0" : "dp1", .elements = 1'000'000, .dims = "[[[1000000]]]"}, true);
    }
    m.step();
  }
  return m;
}

TEST(JobChanges, RanksWithoutATraceAreFilledInByTheirClass) {
  ScriptedJob m = pairs();
  std::vector<trace::Trace> some = m.traces();
  some.erase(some.begin() + 3);
  some.erase(some.begin() + 1);
  const auto job = ranks::assemble(std::move(some));
  ASSERT_TRUE(job) << job.error().to_string();
  const auto today = analysis::make_baseline(*job, std::nullopt, {});
  ASSERT_TRUE(today) << today.error().to_string();
  EXPECT_THAT(today->figures.job->missing, IsEmpty());
  EXPECT_THAT(today->figures.job->notes, Contains(HasSubstr("ranks that do the same work stand in for them: 1, 3")));
  // Half of the kernels waited half a millisecond for the absent rank.
  const whatif::Model& rank = *today->model.job->ranks.front();
  for (std::uint32_t t = 0; t < rank.graph.size(); ++t) {
    if (rank.graph.kind[t] != graph::TaskKind::kCollective) continue;
    EXPECT_LT(to_ms(rank.graph.cost[t]), 0.3) << t;
  }
}

}  // namespace
}  // namespace foretrace::test
