// Sends and receives: matched by pair, direction, group and order, alone or several in one kernel.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foretrace/analysis/ranks.hpp"
#include "foretrace/report/report.hpp"
#include "ranks/clocks.hpp"
#include "ranks/collectives.hpp"
#include "ranks/operations.hpp"
#include "scripted_job.hpp"

namespace foretrace::test {
namespace {

using analysis::RanksReport;
using ranks::CollectiveKind;
using ranks::Matching;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

RanksReport analyse(const ranks::Job& job) {
  auto report = analysis::analyse_ranks(job, {});
  EXPECT_TRUE(report) << report.error().to_string();
  return report ? std::move(*report) : RanksReport{};
}

// Three stages and three micro-batches, one forward and one backward in turn, each exchange with a neighbour in one batch.
void pipeline(ScriptedJob& m, int steps = 1) {
  constexpr Ns kForward = kNsPerMs, kBackward = 2 * kNsPerMs;
  for (int s = 0; s < steps; ++s) {
    for (int i = 0; i < 3; ++i) {  // the first stage sends all, then takes gradients
      m.compute(0, "forward", kForward);
      if (i < 2) m.batch(0, {{.to = 1}});
    }
    m.batch(0, {{.to = 1}, {.from = 1}});
    for (int i = 0; i < 3; ++i) {
      m.compute(0, "backward", kBackward, true);
      if (i < 2) m.batch(0, {{.from = 1}});
    }
    m.batch(1, {{.from = 0}});
    m.compute(1, "forward", kForward);
    m.batch(1, {{.to = 2}});
    m.batch(1, {{.from = 0}});
    m.compute(1, "forward", kForward);
    m.batch(1, {{.to = 2}, {.from = 2}});
    m.compute(1, "backward", kBackward, true);
    m.batch(1, {{.from = 0}, {.to = 0}});
    m.compute(1, "forward", kForward);
    m.batch(1, {{.to = 2}, {.from = 2}});
    m.compute(1, "backward", kBackward, true);
    m.batch(1, {{.to = 0}});
    m.batch(1, {{.from = 2}});
    m.compute(1, "backward", kBackward, true);
    m.batch(1, {{.to = 0}});
    m.batch(2, {{.from = 1}});
    for (int i = 0; i < 3; ++i) {
      m.compute(2, "forward", kForward);
      m.compute(2, "backward", kBackward, true);
      if (i < 2) m.batch(2, {{.to = 1}, {.from = 1}});
    }
    m.batch(2, {{.to = 1}});
    m.step();
  }
}

TEST(RanksMessages, ABatchIsSeveralMessages) {
  ScriptedJob m(3);
  pipeline(m);
  const ranks::Job job = m.job();
  const Matching found = ranks::match(job);
  EXPECT_EQ(found.collectives.size(), 12U);  // three forward and three backward over each of two borders
  for (const ranks::Collective& c : found.collectives) {
    EXPECT_EQ(c.kind, CollectiveKind::kSendRecv);
    ASSERT_EQ(c.count, 2U);
    EXPECT_EQ(c.bytes, 4'000'000);
  }
  EXPECT_EQ(found.unmatched, (std::vector<std::uint64_t>{0, 0, 0}));
  EXPECT_EQ(found.total, (std::vector<std::uint64_t>{5, 9, 4}));  // kernels
  EXPECT_EQ(found.groups.size(), 1U);
}

TEST(RanksMessages, APipelineReplaysToTheNanosecond) {
  ScriptedJob m(3);
  m.offset = {0, 5'000'000, -3'000'000};
  pipeline(m, 2);
  const RanksReport r = analyse(m.job());
  EXPECT_TRUE(r.impossible.empty());
  EXPECT_EQ(r.replayed, r.traced);
  EXPECT_EQ(r.job_step_replayed, r.job_step);
  for (const auto& rank : r.ranks) EXPECT_EQ(rank.replayed, rank.step) << rank.rank;
  for (std::size_t i = 0; i < 3; ++i) EXPECT_LE(std::abs(r.clocks.clocks[i].offset - m.offset[i]), 2'000) << i;
}

// The time of a kernel counts once, however many messages it carries.
TEST(RanksMessages, WaitsOfABatchCountOnce) {
  ScriptedJob m(2);
  m.compute(0, "gemm", kNsPerMs);
  m.batch(0, {{.to = 1}, {.from = 1}});
  m.compute(1, "gemm", 3 * kNsPerMs);
  m.batch(1, {{.from = 0}, {.to = 0}});
  m.step();
  const RanksReport r = analyse(m.job());
  ASSERT_EQ(r.collectives.size(), 2U);
  EXPECT_EQ(r.ranks[0].wait, 2 * kNsPerMs);
  EXPECT_EQ(r.ranks[0].transfer, m.transfer);
  EXPECT_EQ(r.ranks[1].wait, 0);
  EXPECT_EQ(r.replayed, r.traced);
}

// Groups [0, 1] and [2, 3]: rank 3's partner is written as 2, or as the first of its group.
TEST(RanksMessages, PartnersByRankOrByPlaceInTheGroup) {
  for (const bool places : {false, true}) {
    for (const bool coalesced : {false, true}) {
      ScriptedJob m(4);
      m.places = places;
      m.coalesced = coalesced;
      m.groups["a"] = {0, 1};
      m.groups["b"] = {2, 3};
      m.pair_group = {"a", "a", "b", "b"};
      for (const int first : {0, 2}) {
        const auto r = static_cast<std::size_t>(first);
        m.compute(r, "gemm", kNsPerMs);
        m.batch(r, {{.to = first + 1}});
        m.batch(r + 1, {{.from = first}});
      }
      m.step();
      const Matching found = ranks::match(m.job());
      ASSERT_EQ(found.collectives.size(), 2U) << places << coalesced;
      EXPECT_EQ(found.of(found.collectives[1])[found.collectives[1].root].rank, 2U);
      ASSERT_EQ(found.groups.size(), 2U);
      EXPECT_EQ(found.groups[1].declared, (std::vector<std::int64_t>{2, 3}));
    }
  }
}

// A sender whose message fits into a buffer does not wait; its receiver waits for nothing but the sender.
TEST(RanksMessages, ABufferedSendBindsNoSender) {
  ScriptedJob m(2);
  m.buffered = true;
  m.compute(0, "gemm", kNsPerMs);
  m.batch(0, {{.to = 1}});
  m.batch(0, {{.from = 1}});
  m.compute(1, "gemm", 3 * kNsPerMs);
  m.batch(1, {{.to = 0}});
  m.batch(1, {{.from = 0}});
  m.step();
  const RanksReport r = analyse(m.job());
  EXPECT_TRUE(r.impossible.empty());
  EXPECT_EQ(r.replayed, r.traced);
  // For the gradient, and not for its own send.
  EXPECT_NEAR(static_cast<double>(r.ranks[0].wait), static_cast<double>(2 * kNsPerMs - m.transfer), 5e3);
}

// Messages of two sizes in the wrong order on one side do not match: such a job hangs.
TEST(RanksMessages, OrderOfAPairIsKept) {
  ScriptedJob m(2);
  m.batch(0, {{.to = 1, .elements = 1000}});
  m.batch(0, {{.to = 1, .elements = 2000}});
  m.batch(1, {{.from = 0, .elements = 2000}});
  m.batch(1, {{.from = 0, .elements = 1000}});
  m.step();
  EXPECT_LT(ranks::match(m.job()).collectives.size(), 2U);
}

TEST(RanksMessages, CollectivesOfABatchCountTogether) {
  ScriptedJob m(2);
  for (const std::size_t r : {0U, 1U}) m.collective(r, {.name = "allreduce", .elements = 1000});
  m.step();
  std::vector<std::string> texts = m.texts();
  std::vector<trace::Trace> traces;
  for (std::string& text : texts) {
    // The kernel says nothing, and the record comes twice.
    const std::size_t kernel = text.find("\"cat\":\"kernel\"");
    const std::size_t info = text.find(",\"Collective name\"", kernel);
    text.erase(info, text.find('}', info) - info);
    const std::size_t record = text.rfind("{\"ph\"", text.find("record_param_comms"));
    const std::string again = text.substr(record, text.find('\n', record) + 1 - record);
    text.insert(record, again);
    traces.push_back(std::move(*trace::load_bytes(text, "rank.json", {})));
  }
  const Matching found = ranks::match(*ranks::assemble(std::move(traces)));
  ASSERT_EQ(found.collectives.size(), 1U);
  EXPECT_EQ(found.collectives[0].kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(found.collectives[0].bytes, 8000);
}

// The answer does not depend on the order of the files, nor on how many threads read and build.
TEST(RanksMessages, TheSameInAnyOrderOfFiles) {
  ScriptedJob m(3);
  m.offset = {0, 5'000'000, -3'000'000};
  pipeline(m, 3);
  const auto answer = [&](std::vector<std::size_t> order, unsigned threads) {
    std::vector<trace::Trace> all = m.traces(), traces;
    for (const std::size_t r : order) traces.push_back(std::move(all[r]));
    auto job = ranks::assemble(std::move(traces));
    EXPECT_TRUE(job);
    auto report = analysis::analyse_ranks(*job, {.step = {}, .align = true, .threads = threads, .progress = {}});
    EXPECT_TRUE(report);
    return report::to_json(*report);
  };
  const std::string first = answer({0, 1, 2}, 1);
  EXPECT_EQ(answer({2, 1, 0}, 1), first);
  EXPECT_EQ(answer({1, 2, 0}, 2), first);
  EXPECT_EQ(answer({0, 2, 1}, 8), first);
}

// Ranks side by side wait for nobody, so nobody holds another up.
TEST(RanksMessages, RanksThatShareNoCommunicationAreNoJob) {
  ScriptedJob m(2);
  m.compute(0, "gemm", kNsPerMs);
  m.compute(1, "gemm", 3 * kNsPerMs);
  m.step();
  const RanksReport r = analyse(m.job());
  EXPECT_FALSE(r.connected);
  EXPECT_TRUE(r.stragglers.found.empty());
  EXPECT_EQ(r.stragglers.without_any, r.replayed);
  EXPECT_THAT(r.notes, Contains(HasSubstr("not known to be one job")));
  EXPECT_THAT(report::to_text(r, {}), HasSubstr("no job: these ranks share no communication"));
  // Two of a job's ranks whose groups are with others: a job, whose other ranks are missing.
  RanksReport with_groups = r;
  with_groups.kind.groups.resize(1);
  EXPECT_THAT(report::to_text(with_groups, {}), HasSubstr("these ranks do not communicate with each other"));
  EXPECT_THAT(report::to_text(with_groups, {}), Not(HasSubstr("no job:")));
}

}  // namespace
}  // namespace foretrace::test
