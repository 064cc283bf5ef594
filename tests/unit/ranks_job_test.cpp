// A job of several ranks: matching, the graph over all of them, waits and transfers, stragglers, and jobs with something
// missing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "foretrace/analysis/ranks.hpp"
#include "foretrace/report/report.hpp"
#include "job_maker.hpp"
#include "ranks/collectives.hpp"

namespace foretrace::test {
namespace {

using analysis::RanksReport;
using ranks::StragglerCause;
using ::testing::Contains;
using ::testing::HasSubstr;

RanksReport analyse(const ranks::Job& job, const analysis::RanksOptions& options = {}) {
  auto report = analysis::analyse_ranks(job, options);
  EXPECT_TRUE(report) << report.error().to_string();
  return report ? std::move(*report) : RanksReport{};
}

TEST(RanksJob, ReplayedToTheNanosecond) {
  JobMaker m(4);
  m.compute = {1'000'000, 1'700'000, 800'000, 1'100'000};
  m.offset = {0, 4'000'000, -2'000'000, 17};
  m.collectives = 5;
  const RanksReport r = analyse(m.job());
  EXPECT_EQ(r.replayed, r.traced);
  for (const auto& rank : r.ranks) EXPECT_EQ(rank.replayed, rank.step) << rank.rank;
}

ranks::Job job_of(const std::vector<std::string>& texts) {
  std::vector<trace::Trace> traces;
  for (const std::string& text : texts) {
    traces.push_back(std::move(*trace::load_bytes(text, fmt::format("rank{}.json", traces.size()), {})));
  }
  return std::move(*ranks::assemble(std::move(traces)));
}

// Written to files and read from there, each rank's events let go once its part of the graph is there.
RanksReport analyse_files(const std::vector<std::string>& texts) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("foretrace-ranks-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::vector<std::string> files;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    files.push_back((folder / fmt::format("rank{}.json", r)).string());
    std::ofstream(files.back()) << texts[r];
  }
  auto report = analysis::analyse_ranks(files, {}, {.threads = 1});
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(report) << report.error().to_string();
  if (!report) return {};
  for (std::size_t r = 0; r < report->ranks.size(); ++r) report->ranks[r].file = fmt::format("rank{}.json", r);
  return std::move(*report);
}

TEST(RanksJob, OfFilesIsThatOfTheTracesKept) {
  JobMaker m(4);
  m.compute[2] = 1'800'000;
  m.data[1] = 700'000;
  m.collectives = 4;
  EXPECT_EQ(report::to_json(analyse_files(m.texts())), report::to_json(analyse(m.job())));
}

// The last rank's clock jumped by weeks, which shows when the events of the others are gone.
TEST(RanksJob, ARankThatCannotTakePartBringsTheOthersBack) {
  JobMaker m(2);
  m.world = 3;
  std::vector<std::string> texts = m.texts();
  std::string steps;
  for (const auto& [number, us] : {std::pair(2, "1000000.0"), std::pair(3, "4000000000000.0")}) {
    steps += fmt::format(
        R"({}{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{}","pid":1,"tid":1,"ts":{},"dur":2000.0}})",
        steps.empty() ? "" : ",", number, us);
  }
  texts.push_back(fmt::format(
      R"({{"schemaVersion":1,"distributedInfo":{{"backend":"nccl","rank":2,"world_size":3}},"traceEvents":[{}]}})",
      steps));
  const RanksReport r = analyse_files(texts);
  EXPECT_EQ(report::to_json(r), report::to_json(analyse(job_of(texts))));
  EXPECT_THAT(r.notes, Contains(HasSubstr("rank 2 left out")));
  EXPECT_EQ(r.ranks[0].replayed, r.ranks[0].step);
}

TEST(RanksJob, WaitsAndTransfers) {
  JobMaker m(3);
  m.compute = {1'000'000, 1'500'000, 1'200'000};
  m.collectives = 3;
  const RanksReport r = analyse(m.job());
  ASSERT_EQ(r.collectives.size(), 3U);
  for (const auto& c : r.collectives) {
    EXPECT_EQ(c.last, 1);
    EXPECT_EQ(c.transfer, 200'000);
    EXPECT_EQ(c.wait, (std::vector<Ns>{500'000, 0, 300'000}));
    EXPECT_EQ(c.rank_transfer, (std::vector<Ns>{200'000, 200'000, 200'000}));
  }
  EXPECT_EQ(r.ranks[0].wait, 1'500'000);
  EXPECT_EQ(r.ranks[0].replayed_wait, 1'500'000);
  EXPECT_EQ(r.ranks[1].arrived_last, 3U);
  EXPECT_EQ(r.ranks[1].transfer, 600'000);
}

TEST(RanksJob, ASlowKernelIsNamedAndItsCostIsTheDifference) {
  JobMaker m(4);
  m.compute[2] = 1'800'000;
  m.collectives = 4;
  const RanksReport r = analyse(m.job());
  ASSERT_EQ(r.stragglers.found.size(), 1U);
  const ranks::Straggler& s = r.stragglers.found[0];
  EXPECT_EQ(s.rank, 2U);
  EXPECT_EQ(s.cause, StragglerCause::kSlowKernel);
  EXPECT_EQ(s.cost, 4 * 800'000);
  EXPECT_EQ(s.saves, 4 * 800'000);
  EXPECT_EQ(s.worst, "gemm");
  EXPECT_EQ(r.stragglers.without_any, r.replayed - 4 * 800'000);
}

TEST(RanksJob, TwoEquallySlowRanksAreBothNamed) {
  JobMaker m(5);
  m.compute[1] = m.compute[3] = 2'000'000;
  const RanksReport r = analyse(m.job());
  ASSERT_EQ(r.stragglers.found.size(), 2U);
  for (const ranks::Straggler& s : r.stragglers.found) {
    EXPECT_EQ(s.cost, 2'000'000);
    EXPECT_EQ(s.saves, 0);
  }
  EXPECT_EQ(r.stragglers.without_any, r.replayed - 2'000'000);
}

TEST(RanksJob, ALateLauncherIsNamed) {
  JobMaker m(3);
  m.compute = {20'000, 20'000, 20'000};
  m.launch[1] = 900'000;
  m.collectives = 4;
  const RanksReport r = analyse(m.job());
  ASSERT_FALSE(r.stragglers.found.empty());
  EXPECT_EQ(r.stragglers.found[0].rank, 1U);
  EXPECT_EQ(r.stragglers.found[0].cause, StragglerCause::kLateLaunch);
}

TEST(RanksJob, ASlowDataLoaderIsNamed) {
  JobMaker m(3);
  m.data = {100'000, 100'000, 4'100'000};
  const RanksReport r = analyse(m.job());
  ASSERT_FALSE(r.stragglers.found.empty());
  EXPECT_EQ(r.stragglers.found[0].rank, 2U);
  EXPECT_EQ(r.stragglers.found[0].cause, StragglerCause::kDataLoader);
  EXPECT_NEAR(static_cast<double>(r.stragglers.found[0].cost), 4e6, 1e4);
}

TEST(RanksJob, ASlowLinkIsNamed) {
  JobMaker m(6);
  m.group = {0, 0, 1, 1, 2, 2};
  m.group_transfer = {200'000, 900'000, 200'000};
  m.compute = std::vector<Ns>(6, 300'000);
  m.collectives = 3;
  const RanksReport r = analyse(m.job());
  EXPECT_EQ(r.replayed, r.traced);
  ASSERT_FALSE(r.stragglers.found.empty());
  for (const ranks::Straggler& s : r.stragglers.found) {
    EXPECT_EQ(s.cause, StragglerCause::kSlowLink);
    EXPECT_TRUE(s.rank == 2 || s.rank == 3);
    EXPECT_EQ(s.cost, 3 * 700'000);
  }
  EXPECT_EQ(r.stragglers.without_any, r.replayed - 3 * 700'000);
  // Nothing ties the groups' clocks.
  EXPECT_THAT(r.notes, Contains(HasSubstr("no collective connects rank 2 with rank 0")));
}

// A receive waits for its send; the sender waits for nobody.
TEST(RanksJob, SendAndReceiveBindTheirPair) {
  JobMaker m(2);
  m.collectives = 1;
  m.compute = {2'000'000, 1'000'000};
  std::vector<std::string> texts = m.texts();
  const auto become = [](std::string& text, const std::string& what) {
    const std::string was = "\"Collective name\":\"allreduce\"";
    text.replace(text.find(was), was.size(), what);
  };
  become(texts[0], R"("Collective name":"send","Dst Rank":1)");
  become(texts[1], R"("Collective name":"recv","Src Rank":0)");
  std::vector<trace::Trace> traces;
  for (const std::string& t : texts) traces.push_back(std::move(*trace::load_bytes(t, "rank.json", {})));
  auto job = ranks::assemble(std::move(traces));
  ASSERT_TRUE(job);
  const RanksReport r = analyse(*job);
  ASSERT_EQ(r.collectives.size(), 1U);
  EXPECT_EQ(r.collectives[0].kind, "send-recv");
  EXPECT_EQ(r.collectives[0].wait, (std::vector<Ns>{0, 1'000'000}));
  EXPECT_EQ(r.replayed, r.traced);
}

TEST(RanksJob, EvenRanksHaveNoStraggler) {
  const RanksReport r = analyse(JobMaker(4).job());
  EXPECT_TRUE(r.stragglers.found.empty());
  EXPECT_EQ(r.stragglers.without_any, r.replayed);
}

TEST(RanksJob, TheCriticalPathCrossesToTheSlowRank) {
  JobMaker m(2);
  m.compute = {3'000'000, 1'000'000};
  m.collectives = 1;
  const RanksReport r = analyse(m.job());
  EXPECT_GT(r.ranks[0].critical, 2'900'000);
  Ns sum = 0;
  for (const auto& p : r.path) sum += p.length;
  EXPECT_EQ(sum, r.replayed);
}

TEST(RanksJob, MatchesByOrderWithoutDescriptions) {
  JobMaker m(3);
  m.metadata = false;
  m.collectives = 4;
  const ranks::Matching matching = ranks::match(m.job());
  EXPECT_EQ(matching.collectives.size(), 4U);
  for (const auto& c : matching.collectives) EXPECT_EQ(c.count, 3U);
}

// A record lost in the middle shifts nothing: sizes tell which one.
TEST(RanksJob, ALostKernelLeavesTheOthersMatched) {
  JobMaker m(2);
  m.collectives = 5;
  std::vector<std::string> texts = m.texts();
  const std::string lost = "\"In msg nelems\":3000";
  const std::size_t at = texts[1].find(lost);
  ASSERT_NE(at, std::string::npos);
  const std::size_t begin = texts[1].rfind("{\"ph\"", at);
  const std::size_t end = texts[1].find(",\n", at) + 2;
  texts[1].erase(begin, end - begin);
  std::vector<trace::Trace> traces;
  for (const std::string& t : texts) traces.push_back(std::move(*trace::load_bytes(t, "rank.json", {})));
  auto job = ranks::assemble(std::move(traces));
  ASSERT_TRUE(job);
  const ranks::Matching matching = ranks::match(*job);
  EXPECT_EQ(matching.collectives.size(), 4U);
  EXPECT_EQ(matching.unmatched, (std::vector<std::uint64_t>{1, 0}));
  const RanksReport r = analyse(*job);
  EXPECT_THAT(r.notes, Contains(HasSubstr("1 of 9 communication kernels match none")));
}

TEST(RanksJob, DifferentStepCounts) {
  JobMaker m(3);
  m.steps = 4;
  m.cut = {4, 2, 4};
  const ranks::Job job = m.job();
  const RanksReport r = analyse(job);
  EXPECT_TRUE(r.step_number == 3 || r.step_number == 4) << r.step_number;
  EXPECT_EQ(r.replayed, r.traced);
  EXPECT_THAT(r.notes, Contains(HasSubstr("do not hold the same steps")));
  // The two others can still be asked about the step the third lacks.
  const RanksReport later = analyse(job, {.step = 6, .align = true, .threads = 1, .progress = {}});
  EXPECT_FALSE(later.ranks[1].in_step);
  EXPECT_EQ(later.replayed, later.traced);
}

TEST(RanksJob, StepsNumberedDifferently) {
  JobMaker m(3);
  m.steps = 3;
  m.shift = {0, 10, 0};
  m.compute = {1'000'000, 1'500'000, 1'200'000};
  m.offset = {0, 900'000'000, -70'000};
  const RanksReport r = analyse(m.job());
  EXPECT_EQ(r.collectives.size(), 2U);
  EXPECT_EQ(r.replayed, r.traced);
  EXPECT_EQ(r.steps.size(), 3U);
  EXPECT_THAT(r.notes, Contains(HasSubstr("not numbered alike")));
}

// Nothing waits for the GPU: its work of one step runs into the next.
TEST(RanksJob, WorkThatOutlivesItsStep) {
  JobMaker m(3);
  m.steps = 4;
  m.sync = false;
  m.compute = {1'000'000, 1'500'000, 1'200'000};
  const ranks::Job job = m.job();
  for (const int step : {3, 4, 5, 6}) {
    const RanksReport r = analyse(job, {.step = step, .align = true, .threads = 1, .progress = {}});
    EXPECT_EQ(r.replayed, r.traced) << step;
  }
}

TEST(RanksJob, AMissingRankIsSaid) {
  JobMaker m(4);
  std::vector<trace::Trace> traces = m.traces();
  traces.erase(traces.begin() + 2);
  auto job = ranks::assemble(std::move(traces));
  ASSERT_TRUE(job);
  EXPECT_EQ(job->missing, std::vector<std::int64_t>{2});
  const RanksReport r = analyse(*job);
  EXPECT_EQ(r.replayed, r.traced);
  EXPECT_THAT(r.notes, Contains(HasSubstr("1 of 4 ranks have no trace (2)")));
}

TEST(RanksJob, AnotherJobsRankIsLeftOut) {
  std::vector<trace::Trace> traces = JobMaker(3).traces();
  JobMaker other(9);
  traces.push_back(std::move(other.traces()[8]));
  auto job = ranks::assemble(std::move(traces));
  ASSERT_TRUE(job);
  EXPECT_EQ(job->ranks.size(), 3U);
  EXPECT_THAT(job->notes, Contains(HasSubstr("another job, of 9 ranks")));
}

TEST(RanksJob, ARankGivenTwiceCountsOnce) {
  std::vector<trace::Trace> traces = JobMaker(2).traces();
  traces.push_back(std::move(JobMaker(2).traces()[1]));
  auto job = ranks::assemble(std::move(traces));
  ASSERT_TRUE(job);
  EXPECT_EQ(job->ranks.size(), 2U);
  EXPECT_THAT(job->notes, Contains(HasSubstr("given twice")));
}

TEST(RanksJob, OneRankAlone) {
  const RanksReport r = analyse(JobMaker(1).job());
  EXPECT_EQ(r.replayed, r.traced);
  EXPECT_TRUE(r.collectives.empty());
  EXPECT_THAT(r.notes, Contains(HasSubstr("only one rank was given")));
}

TEST(RanksJob, CollectivesThatDoNotMatch) {
  std::vector<trace::Trace> traces = JobMaker(2).traces();
  JobMaker other(2);
  other.name = "_allgather_base";
  other.kernel = "ncclDevKernel_AllGather_RING_LL";
  traces[1] = std::move(other.traces()[1]);
  auto job = ranks::assemble(std::move(traces));
  ASSERT_TRUE(job);
  const Result<RanksReport> report = analysis::analyse_ranks(*job, {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kDeclined);
  EXPECT_THAT(report.error().message, HasSubstr("the files are of unrelated jobs: none of their 4"));
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

TEST(RanksJob, FilesThatNeitherNameARankNorCommunicateAreUnrelated) {
  std::vector<std::string> texts = JobMaker(2).texts();
  for (std::string& text : texts) {
    replace_all(text, "distributedInfo", "anotherKey");
    replace_all(text, "ncclDevKernel_AllReduce", "vectorized_add");
    replace_all(text, "Collective name", "Another name");
  }
  const Result<RanksReport> report = analysis::analyse_ranks(job_of(texts), {});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("unrelated jobs"));
}

// Rank 1 runs the two collectives of each step the other way round: a job that did so would hang.
TEST(RanksJob, AnImpossibleOrderIsSaid) {
  std::vector<std::string> texts = JobMaker(2).texts();
  replace_all(texts[1], "msg nelems\":1000", "msg nelems\":3000");
  replace_all(texts[1], "msg nelems\":2000", "msg nelems\":1000");
  replace_all(texts[1], "msg nelems\":3000", "msg nelems\":2000");
  const RanksReport r = analyse(job_of(texts));
  EXPECT_THAT(r.notes, Contains(HasSubstr("impossible order: rank 1 runs 1 of its collectives in another order")));
}

TEST(RanksJob, RunsOfDifferentHoursAreSaid) {
  JobMaker m(2);
  m.offset = {0, 3'600 * kNsPerSecond};
  EXPECT_THAT(analyse(m.job()).notes, Contains(HasSubstr("the files are of unrelated runs")));
}

// What is named costs more than the clocks may be wrong by, whatever that is.
TEST(RanksJob, NobodyIsNamedByLessThanTheClockError) {
  for (const Ns noise : {0, 20'000, 200'000}) {
    for (const Ns late : {0, 40'000, 200'000, 3'000'000}) {
      JobMaker m(4);
      m.steps = 3;
      m.noise = noise;
      m.compute[2] += late;
      m.launch[1] += late / 4;
      const RanksReport r = analyse(m.job());
      for (const ranks::Straggler& s : r.stragglers.found) {
        const Ns error = std::max(r.clocks.clocks[s.rank].uncertainty, r.clocks.clocks[s.like].uncertainty);
        EXPECT_GT(std::max(s.cost, s.saves), error) << noise << " " << late;
        EXPECT_GT(s.excess, error) << noise << " " << late;
      }
      if (late >= 3'000'000) {
        EXPECT_FALSE(r.stragglers.found.empty());
      }
    }
  }
}

// On clocks nobody aligned, when a rank began is as wrong as its clock.
TEST(RanksJob, NoLateStartOnClocksAsWritten) {
  JobMaker m(2);
  m.offset = {0, 900'000};
  const RanksReport r = analyse(m.job(), {.step = {}, .align = false, .threads = 1, .progress = {}});
  for (const ranks::Straggler& s : r.stragglers.found) EXPECT_NE(s.cause, StragglerCause::kLateStart);
}

TEST(RanksJob, UnknownStep) {
  const auto report =
      analysis::analyse_ranks(JobMaker(2).job(), {.step = 77, .align = true, .threads = 1, .progress = {}});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kUsage);
  EXPECT_THAT(report.error().hint, HasSubstr("there are: 3"));
}

TEST(RanksJob, TheSameOnAnyNumberOfThreads) {
  JobMaker m(6);
  m.compute[4] = 1'400'000;
  const std::string one = report::to_json(analyse(m.job(), {.step = {}, .align = true, .threads = 1, .progress = {}}));
  const std::string many = report::to_json(analyse(m.job(), {.step = {}, .align = true, .threads = 8, .progress = {}}));
  EXPECT_EQ(one, many);
}

}  // namespace
}  // namespace foretrace::test
