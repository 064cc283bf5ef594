#include <gtest/gtest.h>
#include <simdjson.h>

#include <numeric>

#include "base/readable.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/analysis/replay.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/host/measured_step.hpp"
#include "foretrace/report/report.hpp"
#include "report_sample.hpp"
#include "trace_maker.hpp"

namespace foretrace::report {
namespace {

constexpr Ns us(Ns n) { return n * kNsPerUs; }

analysis::TraceReplay replay_of(const trace::Trace& trace, const analysis::ReplayOptions& options = {}) {
  Result<analysis::TraceReplay> report = analysis::replay(trace, trace::find_steps(trace), options);
  EXPECT_TRUE(report) << (report ? "" : report.error().to_string());
  return report ? *report : analysis::TraceReplay{};
}

/// Two steps of two kernels each, the second kernel of the second step longer by `longer`; its copy keeps the CPU waiting.
test::TraceMaker two_steps(Ns longer) {
  test::TraceMaker m;
  m.step(3, 0, us(100));
  m.step(4, us(100), us(200) + longer);
  for (Ns t : {Ns{0}, us(100)}) {
    const Ns more = t > 0 ? longer : 0;
    const int c = t > 0 ? 10 : 0;
    m.op("aten::mm", t + us(5), t + us(40));
    m.launch(c + 1, {t + us(10), t + us(15)}, "gemm", {t + us(20), t + us(50)});
    m.launch(c + 2, {t + us(25), t + us(30)}, "add", {t + us(52), t + us(80) + more});
    m.call("cudaStreamSynchronize", {t + us(45), t + us(85) + more}, c + 3);
    m.sync_row("Stream Sync", {t + us(45), t + us(82) + more}, c + 3, 7);
  }
  return m;
}

TEST(Replay, EveryStepComparedWithItsTrace) {
  const trace::Trace trace = two_steps(us(10)).load();
  const analysis::TraceReplay report = replay_of(trace);
  ASSERT_EQ(report.steps.size(), 2u);
  EXPECT_EQ(report.steps[0].name, "ProfilerStep#3");
  EXPECT_EQ(report.steps[0].traced, us(100));
  EXPECT_EQ(report.steps[0].replayed, us(100));
  EXPECT_EQ(report.steps[1].traced, us(110));
  EXPECT_EQ(report.steps[1].error_pct, 0);
  EXPECT_EQ(report.steps[0].start_error_p95, 0);
  EXPECT_EQ(report.steps[0].gpu_tasks, 2u);
  EXPECT_EQ(report.chosen, 0u);  // of two the shorter one
  EXPECT_TRUE(report.left_out.empty());
  EXPECT_EQ(report.mean_abs_error_pct(), 0);
}

TEST(Replay, OneStepsCostsInAnothersGraph) {
  // The longer kernel reaches the end of the step through the graph of the other step: nothing here is by construction.
  const analysis::TraceReplay report = replay_of(two_steps(us(10)).load());
  ASSERT_TRUE(report.steps[0].cross_error_pct && report.steps[1].cross_error_pct);
  EXPECT_EQ(report.steps[1].cross_step, "ProfilerStep#3");
  EXPECT_NEAR(*report.steps[1].cross_error_pct, 0, 1e-9);
  EXPECT_NEAR(*report.steps[0].cross_error_pct, 0, 1e-9);
}

TEST(Replay, StepsOfOtherTasksAreNotCrossed) {
  test::TraceMaker m = two_steps(0);
  m.op("aten::add", us(190), us(195));
  const analysis::TraceReplay report = replay_of(m.load());
  EXPECT_FALSE(report.steps[0].cross_error_pct);
  EXPECT_FALSE(report.steps[1].cross_error_pct);
}

TEST(Replay, WhatNoRuleExplainsShowsWhenStrict) {
  test::TraceMaker m;
  m.step(3, 0, us(200));
  m.op("aten::mm", us(5), us(20));
  m.launch(1, {us(10), us(15)}, "gemm", {us(100), us(150)});  // 85 us late, for no reason in the trace
  m.call("cudaDeviceSynchronize", {us(30), us(155)}, 2);
  const analysis::TraceReplay report = replay_of(m.load());
  EXPECT_EQ(report.steps[0].error_pct, 0);
  EXPECT_EQ(report.steps[0].notes.unexplained_lags, 1u);
  EXPECT_EQ(report.steps[0].notes.unexplained_time, us(85));
  ASSERT_TRUE(report.steps[0].strict_error_pct);
  EXPECT_LT(*report.steps[0].strict_error_pct, -30);
  EXPECT_NE(to_text(report).find("1 GPU task started over 20 us late without a known cause, 0.085 ms"),
            std::string::npos)
      << to_text(report);
}

TEST(Replay, OnlyTheStepAskedFor) {
  const trace::Trace trace = two_steps(0).load();
  const analysis::TraceReplay report = replay_of(trace, {.step = 4, .measurements = {}, .progress = {}});
  ASSERT_EQ(report.steps.size(), 1u);
  EXPECT_EQ(report.steps[0].number, 4);
  const Result<analysis::TraceReplay> missing =
      analysis::replay(trace, trace::find_steps(trace), {.step = 9, .measurements = {}, .progress = {}});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kUsage);
}

TEST(Replay, DeclinesWithTheReasonWhenThereIsNoStep) {
  const Result<trace::Trace> empty = trace::load_bytes("{\"traceEvents\":[]}", "empty.json");
  ASSERT_TRUE(empty);
  const Result<analysis::TraceReplay> declined = analysis::replay(*empty, trace::find_steps(*empty));
  ASSERT_FALSE(declined);
  EXPECT_EQ(declined.error().code, ErrorCode::kDeclined);
  EXPECT_EQ(declined.error().file, "empty.json");
  EXPECT_EQ(declined.error().message, "there is no step to replay: the trace holds no event with a duration");
}

TEST(Replay, MeasuredStepFromTheUserTheRecorderOrNobody) {
  const Sample with_recorder{.extra_metadata = ",\"foretrace\":{\"measured_ms\":0.75,\"steps\":20}"};
  const trace::Trace trace = with_recorder.load();
  const analysis::TraceReplay recorded = replay_of(trace);
  EXPECT_EQ(recorded.measured, us(750));
  EXPECT_EQ(recorded.unprofiled.origin, "recorder");
  EXPECT_NE(to_text(recorded).find("that the recorder stored"), std::string::npos);
  const analysis::TraceReplay told = replay_of(trace, {.step = {}, .measurements = 0.8, .progress = {}});
  EXPECT_EQ(told.measured, us(800));
  EXPECT_EQ(told.unprofiled.origin, "measured step");
  const analysis::TraceReplay prior = replay_of(Sample{}.load());
  EXPECT_FALSE(prior.measured);
  EXPECT_EQ(prior.unprofiled.origin, "prior");
  EXPECT_LE(prior.unprofiled.low, prior.unprofiled.step);
  EXPECT_GE(prior.unprofiled.high, prior.unprofiled.step);
}

TEST(Replay, RecorderFiguresThatMakeNoSenseAreNotUsed) {
  const auto stored = [](const std::string& value) {
    return host::recorder_figures(Sample{.extra_metadata = ",\"foretrace\":" + value}.load()).measured_ms;
  };
  EXPECT_EQ(stored("{\"measured_ms\":2.5}"), 2.5);
  EXPECT_EQ(stored("\"{\\\"measured_ms\\\": 2.5}\""), 2.5);  // stored as a text
  for (const char* bad : {"{}", "3", "[]", "\"x\"", "{\"measured_ms\":\"7\"}", "null"}) {
    EXPECT_FALSE(stored(bad)) << bad;
  }
  for (const char* impossible : {"-1", "0", "1e300", "0.00075", "750"}) {
    const analysis::TraceReplay report =
        replay_of(Sample{.extra_metadata = fmt::format(",\"foretrace\":{{\"measured_ms\":{}}}", impossible)}.load());
    EXPECT_FALSE(report.measured) << impossible;
    EXPECT_EQ(report.unprofiled.origin, "prior") << impossible;
    EXPECT_NE(report.measured_refused.find("is impossible"), std::string::npos) << impossible;
    EXPECT_NE(to_text(report).find("the recorder stored is not used"), std::string::npos) << impossible;
  }
}

TEST(Replay, JsonKeepsItsNames) {
  simdjson::dom::parser parser;
  simdjson::dom::element d;
  ASSERT_FALSE(parser.parse(to_json(replay_of(two_steps(us(10)).load()))).get(d));
  EXPECT_EQ(std::int64_t(d["schema"]), 1);
  const simdjson::dom::element step = d["steps"].at(1);
  EXPECT_EQ(std::string_view(step["step"]), "ProfilerStep#4");
  EXPECT_DOUBLE_EQ(double(step["traced_ms"]), 0.11);
  EXPECT_DOUBLE_EQ(double(step["replayed_ms"]), 0.11);
  EXPECT_DOUBLE_EQ(double(step["error_pct"]), 0);
  EXPECT_DOUBLE_EQ(double(step["start_error_p50_us"]), 0);
  EXPECT_DOUBLE_EQ(double(step["start_error_p95_us"]), 0);
  EXPECT_EQ(std::int64_t(step["copies"]), 1);
  for (const char* key : {"unprofiled_ms", "unprofiled_low_ms", "unprofiled_high_ms"}) {
    EXPECT_GT(double(d[key]), 0) << key;
  }
  EXPECT_TRUE(d["measured_ms"].is_null());
}

// The analysis behind the reports --------------------------------------------------------------------------------------

analysis::ReplayedStep replayed_step(const test::TraceMaker& maker, std::size_t which = 0) {
  const trace::Trace trace = maker.load();
  const trace::Steps steps = trace::find_steps(trace);
  Result<graph::Graph> graph = graph::GraphBuilder(trace, steps).build(which);
  EXPECT_TRUE(graph) << (graph ? "" : graph.error().to_string());
  return analysis::replay_step(std::move(*graph));
}

Ns length_of(const analysis::ReplayedStep& a) {
  Ns sum = 0;
  for (const analysis::PathSegment& s : a.path) sum += s.wait + s.work;
  return sum;
}

TEST(ReplayedStep, ThePathIsAsLongAsTheStep) {
  const analysis::ReplayedStep a = replayed_step(two_steps(0));
  EXPECT_EQ(length_of(a), a.replayed());
  EXPECT_EQ(a.path.front().start, 0);
  bool through_gpu = false;
  for (const analysis::PathSegment& s : a.path) through_gpu |= a.graph.task_name(s.task) == "add";
  EXPECT_TRUE(through_gpu);  // the synchronisation waits for it
}

/// Work that outlives its step: launches of 30 us, kernels of 90 us each, nothing waits for them.
test::TraceMaker backlog() {
  test::TraceMaker m;
  Ns gpu = us(20);
  for (int s = 0; s < 4; ++s) {
    const Ns t = us(100) * s;
    m.step(s, t, t + us(100));
    m.op("aten::mm", t + us(5), t + us(95));
    m.launch(s + 1, {t + us(10), t + us(15)}, "gemm", {gpu, gpu + us(150)});
    gpu += us(152);
  }
  return m;
}

TEST(ReplayedStep, CopiesMapBackToTasks) {
  const analysis::ReplayedStep a = replayed_step(backlog(), 1);
  ASSERT_GT(a.state.copies, 1u);
  EXPECT_EQ(a.replayed(), us(152));  // the GPU's pace, not the CPU's
  for (std::uint32_t t = 0; t < a.graph.size(); ++t) {
    EXPECT_EQ(a.task_at(a.last_copy(t)), t);
    EXPECT_TRUE(a.in_last_copy(a.last_copy(t)));
    EXPECT_EQ(a.end(t) - a.start(t), a.graph.cost[t]);
  }
  EXPECT_EQ(length_of(a), a.replayed());
}

TEST(Percentages, AddUpToAHundredAndStayClose) {
  const auto sum = [](const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); };
  for (const std::vector<Ns>& parts :
       {std::vector<Ns>{1, 1, 1}, {0, 0, 7}, {333, 333, 334, 0, 0}, {1, 999'999'999}, {5, 0, 0, 2, 123'456'789'012}}) {
    const Ns whole = std::accumulate(parts.begin(), parts.end(), Ns{0});
    const std::vector<double> pct = percentages(parts, whole);
    EXPECT_NEAR(sum(pct), 100, 1e-9);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      EXPECT_NEAR(pct[i], 100.0 * static_cast<double>(parts[i]) / static_cast<double>(whole), 0.1);
    }
  }
  EXPECT_EQ(percentages({0, 0}, 0), (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace foretrace::report
