// Collectives between products overlap them: the what-if `overlap`, on jobs written by hand and on recorded ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "foretrace/analysis/baseline.hpp"
#include "serial_job.hpp"

namespace foretrace::test {
namespace {

using analysis::Baseline;
using ::testing::HasSubstr;
using whatif::Prediction;

// A product of 2 ms on an H200 at 550 TFLOP/s; 1 ms moves its result at 270 GB/s.
constexpr int kRows = 16384, kColumns = 8192, kInner = 4096;

struct Asked {
  Ns today = 0;
  Prediction then;
};

std::vector<whatif::Use> uses_of(const std::vector<std::string>& changes) {
  std::vector<whatif::Use> uses;
  for (const std::string& change : changes) {
    auto use = whatif::parse_use(change);
    EXPECT_TRUE(use) << use.error().to_string();
    if (use) uses.push_back(std::move(*use));
  }
  return uses;
}

Asked ask(const ranks::Job& job, const std::vector<std::string>& changes) {
  const auto today = analysis::make_baseline(job, std::nullopt, {});
  EXPECT_TRUE(today) << today.error().to_string();
  if (!today) return {};
  const std::vector<whatif::Use> uses = uses_of(changes);
  // Of the job as it is after all changes but the last.
  const Prediction before = uses.size() > 1 ? analysis::predict(*today, {uses.begin(), uses.end() - 1}) : Prediction{};
  return {uses.size() > 1 ? before.step : today->figures.unprofiled, analysis::predict(*today, uses)};
}
Asked ask(const SerialJob& job, const std::string& change) { return ask(job.job(), {change}); }

std::size_t count(const Prediction& p, graph::TaskKind kind) {
  return static_cast<std::size_t>(std::count(p.graph.kind.begin(), p.graph.kind.end(), kind));
}

// product ─▶ all-reduce ─▶ sum, four times.
SerialJob tensor_parallel(Ns transfer = kNsPerMs, Ns product = 2 * kNsPerMs) {
  SerialJob m;
  m.transfer = transfer;
  for (int i = 0; i < 4; ++i) {
    m.product(kRows, kColumns, kInner, product);
    m.collective("allreduce", kRows, kColumns);
    m.reads(kRows, kColumns, 100 * kNsPerUs);
  }
  return m;
}

TEST(JobOverlap, PartsOfACollectiveRunBesideTheProduct) {
  const Asked a = ask(tensor_parallel(), "overlap:collective=all_reduce,chunks=2");
  ASSERT_EQ(a.then.declined, "");
  // Half of each transfer, less what the kernels overlapping it lose.
  const double saved = to_ms(a.today - a.then.step);
  EXPECT_GT(saved, 4 * 0.3);
  EXPECT_LT(saved, 4 * 0.5);
  EXPECT_FALSE(a.then.validated);
  EXPECT_LT(a.then.low, a.then.step);
}

TEST(JobOverlap, TheStepIsNeverShorterThanItsProducts) {
  for (const Ns transfer : {10 * kNsPerUs, 100 * kNsPerUs, kNsPerMs, 10 * kNsPerMs}) {
    for (const int chunks : {2, 4, 16, 64}) {
      const Asked a = ask(tensor_parallel(transfer), fmt::format("overlap:collective=all_reduce,chunks={}", chunks));
      if (!a.then.declined.empty()) continue;  // a transfer no longer than a hand-over between streams
      EXPECT_GE(to_ms(a.then.step), 4 * 2.1) << chunks;
      EXPECT_GE(to_ms(a.then.step), 4 * (to_ms(transfer) + 0.1)) << chunks;
      for (const whatif::RankTime& rank : a.then.ranks) EXPECT_GE(to_ms(rank.gpu_time), 4 * 2.09) << chunks;
    }
  }
}

TEST(JobOverlap, MoreExposedCommunicationGainsMore) {
  Ns gained = -kNsPerMs;
  for (const Ns transfer : {100 * kNsPerUs, 300 * kNsPerUs, kNsPerMs, 2 * kNsPerMs}) {
    const Asked a = ask(tensor_parallel(transfer), "overlap:collective=all_reduce");
    ASSERT_EQ(a.then.declined, "");
    EXPECT_GT(a.today - a.then.step, gained);
    gained = a.today - a.then.step;
  }
}

TEST(JobOverlap, TheOrderOfTheFilesDoesNotMatter) {
  SerialJob m = tensor_parallel();
  m.later = {0, 300 * kNsPerUs};
  const Ns step = ask(m, "overlap:collective=all_reduce").then.step;
  m.reversed = true;
  EXPECT_EQ(ask(m, "overlap:collective=all_reduce").then.step, step);
}

TEST(JobOverlap, OneChunkMovesNothingThatIsInItsPlace) {
  EXPECT_THAT(ask(tensor_parallel(), "overlap:collective=all_reduce,chunks=1").then.declined,
              HasSubstr("only parts (chunks=2 or more) can overlap something"));
}

// Work that neither feeds the collective nor reads its result stands in front of the wait.
TEST(JobOverlap, TheWaitMovesToTheFirstReader) {
  SerialJob m;
  m.product(kRows, kColumns, kInner, kNsPerMs);
  m.collective("allreduce", kRows, kColumns);
  m.product(333, 555, 777, 600 * kNsPerUs);
  m.reads(kRows, kColumns, 100 * kNsPerUs);
  const Asked a = ask(m, "overlap:collective=all_reduce,chunks=1");
  ASSERT_EQ(a.then.declined, "");
  EXPECT_NEAR(to_ms(a.today - a.then.step), 0.6, 0.25);
  EXPECT_EQ(count(a.then, graph::TaskKind::kKernel), 3U * 2);
}

TEST(JobOverlap, ItStartsAsSoonAsItsDataIsThere) {
  SerialJob m;
  m.product(kRows, kColumns, kInner, kNsPerMs);
  m.product(333, 555, 777, 600 * kNsPerUs);
  m.collective("allreduce", kRows, kColumns);
  m.reads(kRows, kColumns, 100 * kNsPerUs);
  const Asked a = ask(m, "overlap:collective=all_reduce,chunks=1");
  ASSERT_EQ(a.then.declined, "");
  EXPECT_NEAR(to_ms(a.today - a.then.step), 0.6, 0.25);
}

// all-gather ─▶ two products that read what it gives, with something done to the first one's result in between.
TEST(JobOverlap, ProductsBehindAnAllGatherAreCut) {
  SerialJob m;
  for (int i = 0; i < 3; ++i) {
    m.reads(64, 64, 100 * kNsPerUs);
    m.collective("_allgather_base", kRows, kColumns);
    m.product(kRows, kInner / 2, kColumns, kNsPerMs);
    m.reads(kRows, kInner / 2, 50 * kNsPerUs);
    m.product(kRows, kInner / 2, kColumns, kNsPerMs);
  }
  const Asked a = ask(m, "overlap:collective=all_gather,chunks=2");
  ASSERT_EQ(a.then.declined, "");
  EXPECT_EQ(count(a.then, graph::TaskKind::kKernel), 3U * (1 + 3 * 2) * 2);
  EXPECT_GT(to_ms(a.today - a.then.step), 3 * 0.3);
  EXPECT_LT(to_ms(a.today - a.then.step), 3 * 0.5);
}

TEST(JobOverlap, WhatRunsBesideKernelsAlreadyIsDeclined) {
  SerialJob m;
  for (int i = 0; i < 3; ++i) {
    m.product(kRows, kColumns, kInner, kNsPerMs);
    m.collective("allreduce", kRows, kColumns, true);
    m.product(333, 555, 777, 3 * kNsPerMs);
    m.wait();
    m.reads(kRows, kColumns, 100 * kNsPerUs);
  }
  EXPECT_THAT(ask(m, "overlap:collective=all_reduce").then.declined, HasSubstr("nothing of them is exposed"));
}

TEST(JobOverlap, RecordedPartsAreNotCutAgain) {
  SerialJob m;
  for (int i = 0; i < 3; ++i) {
    m.product(kRows, kColumns, kInner, kNsPerMs);
    m.collective("allreduce", kRows, kColumns, true);
    m.product(kRows, kColumns, kInner, 500 * kNsPerUs);
    m.collective("allreduce", kRows, kColumns, true);
    m.wait();
    m.reads(2 * kRows, kColumns, 100 * kNsPerUs);
  }
  EXPECT_THAT(ask(m, "overlap:collective=all_reduce,chunks=2").then.declined, HasSubstr("are parts of one already"));
  // Nor what the change itself cut.
  const auto twice = ask(tensor_parallel().job(), {"overlap:collective=all_reduce", "overlap:collective=all_reduce"});
  EXPECT_THAT(twice.then.declined, HasSubstr("are parts of one already"));
}

TEST(JobOverlap, WithoutAProductThatCanBeCutItIsDeclined) {
  SerialJob m;
  for (int i = 0; i < 3; ++i) {
    m.reads(kRows, kColumns, kNsPerMs);
    m.collective("allreduce", kRows, kColumns);
    m.reads(kRows, kColumns, 100 * kNsPerUs);
  }
  EXPECT_THAT(ask(m, "overlap:collective=all_reduce").then.declined,
              HasSubstr("no product next to them that can be cut along its rows"));
}

TEST(JobOverlap, CollectivesAreNamedByKindAndGroup) {
  const SerialJob m = tensor_parallel();
  EXPECT_THAT(ask(m, "overlap:collective=all_gather").then.declined,
              HasSubstr("the step has no all-gathers: there are all-reduces of mesh_tp"));
  EXPECT_THAT(ask(m, "overlap:collective=all_reduce,group=dp").then.declined, HasSubstr("no all-reduces of dp"));
  const Ns all = ask(m, "overlap:collective=all_reduce").then.step;
  for (const char* const group : {"default_pg", "mesh_tp", "tp"}) {
    EXPECT_EQ(ask(m, std::string("overlap:collective=all_reduce,group=") + group).then.step, all) << group;
  }
  const auto wrong = whatif::parse_use("overlap:collective=broadcast");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().hint, HasSubstr("all_to_all"));
}

// Some records name the number of elements only.
TEST(JobOverlap, AProductOfTheSameSizeShowsWhatACollectiveCarries) {
  SerialJob m = tensor_parallel();
  const Ns step = ask(m, "overlap:collective=all_reduce").then.step;
  m.shapes = false;
  EXPECT_EQ(ask(m, "overlap:collective=all_reduce").then.step, step);
  EXPECT_THAT(ask(m, "overlap:collective=all_reduce,chunks=1").then.declined,
              HasSubstr("do not show the size and shape"));
}

// Parts meet parts: one rank alone can cut nothing.
TEST(JobOverlap, OneRankOfAJobCutsNothing) {
  const ranks::Job job = tensor_parallel().job();
  const auto today = analysis::make_baseline(job, std::nullopt, {}, {0});
  ASSERT_TRUE(today) << today.error().to_string();
  EXPECT_THAT(analysis::predict(*today, uses_of({"overlap:collective=all_reduce"})).declined,
              HasSubstr("only some of the ranks that meet"));
}

ranks::Job recorded(const std::string& folder, const std::string& name, bool reversed = false) {
  const std::string path = std::string(FORETRACE_SOURCE_DIR "/data/") + folder + "/" + name + ".w2.r";
  std::vector<std::string> files{path + "0.json.gz", path + "1.json.gz"};
  if (reversed) std::reverse(files.begin(), files.end());
  auto job = ranks::load_job(files);
  EXPECT_TRUE(job) << job.error().to_string();
  return std::move(*job);
}

// The gradient of a layer's input is summed while those of its weights are computed.
TEST(JobOverlap, GradientsOfWeightsRunBesideTheSumOfTheInputs) {
  const Asked a = ask(recorded("h200-jobs", "gptB.inside.tp"), {"overlap:collective=all_reduce,chunks=1"});
  ASSERT_EQ(a.then.declined, "");
  EXPECT_LT(a.then.step, a.today);
  const Asked swapped = ask(recorded("h200-jobs", "gptB.inside.tp", true), {"overlap:collective=all_reduce,chunks=1"});
  EXPECT_EQ(swapped.then.step, a.then.step);
}

TEST(JobOverlap, TokensOfExpertsTravelBesideTheirProducts) {
  const Asked a = ask(recorded("h200-more-jobs", "moeB.inside.ep"), {"overlap:collective=all_to_all"});
  ASSERT_EQ(a.then.declined, "");
  EXPECT_LT(to_ms(a.then.step), 1.02 * to_ms(a.today));
  const std::size_t before =
      count(ask(recorded("h200-more-jobs", "moeB.inside.ep"), {"cpu:x=1.001"}).then, graph::TaskKind::kCollective);
  EXPECT_GT(count(a.then, graph::TaskKind::kCollective), before);
}

TEST(JobOverlap, GradientsAreLeftToTheirBuckets) {
  EXPECT_THAT(ask(recorded("h200-jobs", "gptB.inside.ddp"), {"overlap:collective=all_reduce"}).then.declined,
              HasSubstr("gradients or parameters, which are cut into buckets or units"));
  EXPECT_THAT(ask(recorded("h200-jobs", "gptB.inside.fsdp"), {"overlap:collective=all_gather"}).then.declined,
              HasSubstr("gradients or parameters"));
}

}  // namespace
}  // namespace foretrace::test
