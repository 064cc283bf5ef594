// Pipeline jobs from operation traces: importer, graph, and the questions of the straggler study.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "foretrace/ranks/job.hpp"
#include "foretrace/trace/load.hpp"

namespace foretrace::test {
namespace {

using ranks::PipelineAnswers;
using ranks::PipelineJob;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::string_view kHeader = "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n";

trace::Trace load(const std::string& text) {
  auto trace = trace::load_bytes(text, "job.csv", {});
  EXPECT_TRUE(trace) << trace.error().to_string();
  return trace ? std::move(*trace) : trace::Trace{};
}

PipelineAnswers answers(const std::string& rows) {
  auto job = ranks::read_pipeline(load(std::string(kHeader) + rows));
  EXPECT_TRUE(job) << job.error().to_string();
  auto out = ranks::answer(*job);
  EXPECT_TRUE(out) << out.error().to_string();
  return out ? std::move(*out) : PipelineAnswers{};
}

// Two stages, one micro-batch: F0 -> send/recv -> F1 -> B1 -> send/recv -> B0; `f1` is what the second stage's forward takes.
std::string two_stages(double f1, int step = 1, int dp = 0) {
  std::string out;
  const auto row = [&](int stage, std::string_view type, double start, double end, int mb) {
    out += fmt::format("{},{},{},{},{},{:.6f},{:.6f},0,{},{},{}\n", dp, stage, dp * 2 + stage, step, type, start,
                       end - start, mb, mb, mb < 0 ? -1 : stage);
  };
  row(0, "forward-compute", 0, 0.1, 0);
  row(0, "forward-send", 0.1, 0.102, -1);
  row(1, "forward-recv", 0, 0.102, -1);
  row(1, "forward-compute", 0.102, 0.102 + f1, 0);
  row(1, "backward-compute", 0.102 + f1, 0.302 + f1, 0);
  row(1, "backward-send", 0.302 + f1, 0.304 + f1, -1);
  row(0, "backward-recv", 0.1, 0.304 + f1, -1);
  row(0, "backward-compute", 0.304 + f1, 0.504 + f1, 0);
  row(0, "optimizer", 0.504 + f1, 0.510 + f1, -1);
  row(1, "optimizer", 0.304 + f1, 0.310 + f1, -1);
  return out;
}

TEST(RanksPipeline, TimesAreExact) {
  const trace::Trace t = load(std::string(kHeader) +
                              "0,0,0,16,forward-compute,2.6883304119110107,9.5367431640625e-07,0,0,0,0\n"
                              "0,0,0,17,forward-compute,1e-05,0.25,0,0,0,0\r\n");
  ASSERT_EQ(t.size(), 2U);
  EXPECT_EQ(t.format, "operations-csv");
  EXPECT_EQ(t.events.duration[0], 953);
  EXPECT_EQ(t.events.start[0], 0);  // steps one behind the other
  EXPECT_EQ(t.events.start[1], 953);
  EXPECT_EQ(t.events.duration[1], 250'000'000);
}

TEST(RanksPipeline, BadRowsAreCounted) {
  const trace::Trace t = load(std::string(kHeader) +
                              "0,0,0,16,forward-compute,0,0.1,0,0,0,0\nx,0,0,16,forward-compute,0,0.1,0,0,0,0\n"
                              "0,0,0,16,forward-compute,nan,0.1,0,0,0,0\n0,0\n0,0,0,16,forward-compute,0,-1,0,0,0,0\n");
  EXPECT_EQ(t.size(), 1U);
  EXPECT_EQ(t.diagnostics.lost_records(), 4U);
}

TEST(RanksPipeline, WaitsComeOutOfTheSimulation) {
  const PipelineAnswers a = answers(two_stages(0.1));
  ASSERT_EQ(a.steps.size(), 1U);
  EXPECT_EQ(a.steps[0].traced, 610'000'000);
  EXPECT_EQ(a.steps[0].replayed, 610'000'000);
  ASSERT_EQ(a.workers.size(), 2U);
  // Stage 0 waits for stage 1's backward, stage 1 for stage 0's forward.
  EXPECT_EQ(a.workers[0].wait, 302'000'000);
  EXPECT_EQ(a.workers[0].transfer, 4'000'000);
  EXPECT_EQ(a.workers[1].wait, 100'000'000);
}

TEST(RanksPipeline, ASlowStageIsNamed) {
  // One of three ranks has a forward four times as long on the second stage; the mean of all forwards is 0.15.
  const PipelineAnswers a = answers(two_stages(0.1, 1, 0) + two_stages(0.1, 1, 1) + two_stages(0.4, 1, 2));
  EXPECT_EQ(a.steps[0].replayed, 910'000'000);
  EXPECT_EQ(a.steps[0].ideal, 710'000'000);
  EXPECT_NEAR(a.slowdown, 910.0 / 710.0, 1e-9);
  EXPECT_EQ(a.by_dp.front().name, "dp 2");
  EXPECT_EQ(a.by_stage.front().name, "stage 1");
  EXPECT_EQ(a.by_type.front().name, "forward-compute");
  EXPECT_NEAR(a.by_type.front().slowdown, 910.0 / 710.0, 1e-9);
}

TEST(RanksPipeline, DataParallelRanksMeet) {
  std::string rows = two_stages(0.1, 1, 0) + two_stages(0.3, 1, 1);
  // Both ranks reduce their gradients behind the backward; the first waits for the second.
  for (const int dp : {0, 1}) {
    const double ready = dp == 0 ? 0.604 : 0.804;
    rows += fmt::format("{},0,{},1,grads-reduce-scatter,{},{},0,0,-1,-1\n", dp, dp * 2, ready, 0.854 - ready);
  }
  const PipelineAnswers a = answers(rows);
  EXPECT_EQ(a.steps[0].replayed, 860'000'000);  // and the optimizer behind it
  EXPECT_EQ(a.by_dp.front().name, "dp 1");
}

TEST(RanksPipeline, ALostPartnerKeepsItsTime) {
  std::string rows = two_stages(0.1);
  const std::size_t at = rows.find("0,1,1,1,forward-recv");
  rows.erase(at, rows.find('\n', at) + 1 - at);
  const PipelineAnswers a = answers(rows);
  EXPECT_THAT(a.notes, Contains(HasSubstr("1 sends or receives have no partner")));
}

TEST(RanksPipeline, NothingComputes) {
  const auto job = ranks::read_pipeline(load(std::string(kHeader) + "0,0,0,1,optimizer,0,1,0,0,0,0\n"));
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().code, ErrorCode::kDeclined);
}

// The published answers of two production jobs.
class Published : public ::testing::TestWithParam<const char*> {};

// The number behind "key": in a flat JSON text.
double number(const std::string& json, const std::string& object, const std::string& key) {
  const std::size_t from = json.find('"' + object + '"');
  const std::size_t at = json.find('"' + key + "\":", from);
  return at == std::string::npos ? std::nan("") : std::strtod(json.c_str() + at + key.size() + 3, nullptr);
}

TEST_P(Published, AreMet) {
  const char* root = std::getenv("FORETRACE_PUBLIC");
  if (root == nullptr) GTEST_SKIP() << "FORETRACE_PUBLIC is not set";
  const std::string folder = std::string(root) + "/straggler-jobs/";
  const auto trace = trace::load(folder + "trace-" + GetParam() + ".csv.gz");
  ASSERT_TRUE(trace) << trace.error().to_string();
  const auto job = ranks::read_pipeline(*trace);
  ASSERT_TRUE(job);
  const auto a = ranks::answer(*job);
  ASSERT_TRUE(a);
  std::ifstream file(folder + "result-" + GetParam() + ".json");
  const std::string truth((std::istreambuf_iterator<char>(file)), {});
  ASSERT_FALSE(truth.empty());
  for (const PipelineAnswers::Step& s : a->steps) {
    const std::string key = std::to_string(s.number);
    const double base = number(truth, "step_t_base", key), replay = number(truth, "step_t_nodelay", key);
    EXPECT_NEAR(to_ms(s.traced) / 1e3, base, base * 1e-4) << key;
    EXPECT_NEAR(to_ms(s.replayed) / 1e3, replay, replay * 0.01) << key;
    const double ideal = number(truth, "step_t_noblk", key);
    EXPECT_NEAR(to_ms(s.ideal) / 1e3, ideal, ideal * 0.02) << key;
  }
  EXPECT_NEAR(a->slowdown, number(truth, "job_meta", "blocking_slowdown"), 0.05);
  const auto compare = [&](const std::string& object, const std::vector<PipelineAnswers::Share>& shares) {
    for (const auto& s : shares) {
      const double t = number(truth, object, s.number >= 0 ? std::to_string(s.number) : s.name);
      if (std::isnan(t)) continue;
      EXPECT_NEAR(s.slowdown, t, 0.05) << object << " " << s.name;
    }
  };
  for (std::size_t i = 0; i < a->steps.size(); ++i) {
    const std::string step = std::to_string(a->steps[i].number);
    const PipelineAnswers one = ranks::of_step(*a, i);
    for (const auto& s : one.by_stage) {
      const std::size_t from = truth.find('"' + step + "\":", truth.find("\"blocking_decompose_by_stage_per_step\""));
      EXPECT_NEAR(s.slowdown, number(truth.substr(from, 400), step, std::to_string(s.number)), 0.05) << step;
    }
  }
  compare("blocking_decompose_by_dp_rank", a->by_dp);
  compare("blocking_decompose_by_stage", a->by_stage);
  compare("blocking_decompose_by_optype", a->by_type);
}

INSTANTIATE_TEST_SUITE_P(RanksPipeline, Published, ::testing::Values("AR", "SE"));

}  // namespace
}  // namespace foretrace::test
