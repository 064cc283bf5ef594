// What things cost the CPU of a host: the file, the speed a trace shows, and what recording took.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "foretrace/host/measured_step.hpp"
#include "foretrace/host/unprofiled.hpp"
#include "foretrace/trace/load.hpp"
#include "trace_maker.hpp"

namespace foretrace::whatif {
namespace {

using test::Replay;
using test::TraceMaker;
using testing::HasSubstr;

constexpr Ns kUs = 1'000;

TEST(HostCosts, TheBuiltInFileHasFiguresOfEverySubject) {
  const host::HostCosts& c = host::HostCosts::built_in();
  for (const double figure : {c.default_speed,
                              c.reference.launch_call_us,
                              c.reference.view_us,
                              c.profiler.op_us,
                              c.profiler.remaining_share,
                              c.launches.us[2],
                              c.launches.compiled_weight,
                              c.eager.cast_us,
                              c.checkpoint.backward_us,
                              c.update.list_tensor_us,
                              c.compiled.launch_us,
                              c.cuda_graph.node_us,
                              c.loader.open_batch_us,
                              c.loader.slower_with_workers,
                              c.ddp.wait_us,
                              c.compression.powersgd_vector_us,
                              c.fsdp.update_tensor_us,
                              c.uncertainty.shared,
                              c.uncertainty.phase[2],
                              c.uncertainty.loading}) {
    EXPECT_GT(figure, 0);
  }
  EXPECT_FALSE(c.speed);
}

TEST(HostCosts, EveryLineOfTheBuiltInFileNamesAFigure) {
  const std::string_view file = data_file("host/hosts/xeon-h200.csv");
  std::size_t figures = 0;
  for (CsvReader row(file, {"name", "value"}); row.next();) {
    const std::string_view name = row["name"];
    EXPECT_TRUE(host::HostCosts::parse(fmt::format("{},0.125\n", name), "host.csv")) << name;
    ++figures;
  }
  EXPECT_EQ(figures, 75U);
}

TEST(HostCosts, AHostIsFoundByItsName) {
  ASSERT_TRUE(host::HostCosts::find("xeon-h200"));
  EXPECT_EQ(host::HostCosts::find("xeon-h200")->profiler.op_us, host::HostCosts::built_in().profiler.op_us);
  EXPECT_FALSE(host::HostCosts::find("no-such-host"));
}

TEST(HostCosts, WhatCalibrateMeasuredBecomesASpeed) {
  const host::HostCosts& usual = host::HostCosts::built_in();
  const Result<host::HostCosts> c = host::HostCosts::parse(
      fmt::format("# a host\nview_us,{},20 rounds,0.1\nevent_us,3\n", 2 * usual.reference.view_us), "host.csv");
  ASSERT_TRUE(c);
  EXPECT_DOUBLE_EQ(c->speed.value_or(0), 2);
  EXPECT_DOUBLE_EQ(c->profiler.op_us, 1.5);
  EXPECT_EQ(c->profiler.call_us, usual.profiler.call_us);
}

TEST(HostCosts, AWrongFileSaysWhere) {
  const Result<host::HostCosts> misspelt = host::HostCosts::parse("event_us,1\nlaunch_cal_us,5\n", "host.csv");
  ASSERT_FALSE(misspelt);
  EXPECT_EQ(misspelt.error().code, ErrorCode::kUnreadable);
  EXPECT_THAT(misspelt.error().message, HasSubstr("line 2"));
  EXPECT_THAT(misspelt.error().hint, HasSubstr("launch_call_us"));
  for (const char* wrong : {"left", "left,", "left,x", "left,0", "left,-1", "left,1e9", "left,nan"}) {
    EXPECT_FALSE(host::HostCosts::parse(wrong, "host.csv")) << wrong;
  }
  for (const char* nothing : {"", "# only a remark\n"}) {
    EXPECT_EQ(host::HostCosts::parse(nothing, "host.csv").error().message, "the file holds no figures of a host");
  }
  EXPECT_FALSE(host::HostCosts::read("no such file.csv"));
}

/// 100 launches, or so many; every call of a speed takes `slow` times as long as on the usual host at its fastest.
TraceMaker step_at(double slow, int operations = 1, int launches = 100) {
  TraceMaker m;
  const auto us = [&](double fast) { return static_cast<Ns>(fast * slow * 1e3); };
  Ns at = 10 * kUs;
  for (int i = 1; i <= launches; ++i) {
    const Ns begin = at;
    for (int k = 0; k < operations; ++k) m.op("aten::add", begin + k * us(0.5), begin + us(30) - k * us(0.5));
    m.op("aten::empty", begin + us(12), begin + us(12 + host::HostCosts::built_in().reference.empty_us));
    m.launch(i, {begin + us(18), begin + us(18 + host::HostCosts::built_in().reference.launch_call_us)}, "add",
             {begin + us(25), begin + us(25) + 2 * kUs});
    at += us(32);
  }
  m.step(3, 0, at);
  return m;
}

TEST(Unprofiled, ATraceShowsItsSpeed) {
  EXPECT_NEAR(host::traced_speeds(Replay(step_at(1)).graph, host::HostCosts::built_in())[0], 1, 0.02);
  EXPECT_GT(host::traced_speeds(Replay(step_at(2)).graph, host::HostCosts::built_in())[0], 1.7);
  EXPECT_EQ(host::step_speed(host::HostCosts::built_in().default_speed, host::HostCosts::built_in()),
            host::HostCosts::built_in().default_speed);
  host::HostCosts known = host::HostCosts::built_in();
  known.speed = 3;
  EXPECT_EQ(host::step_speed(1, known), 3);
}

TEST(Unprofiled, AFewCallsDoNotRevealThePhasesSpeed) {
  for (const int launches : {3, 30}) {
    TraceMaker m = step_at(1);
    m.range("Optimizer.step#Adam.step", (10 + 32 * (100 - launches)) * kUs, (10 + 32 * 100) * kUs);
    graph::Graph g = Replay(m).graph;
    for (std::size_t t = 0; t < g.size(); ++t) {
      if (!graph::is_gpu(g.kind[t]) && host::cpu_phase(g, t) == host::CpuPhase::kOptimizer) g.cost[t] *= 4;
    }
    const std::array<double, 3> speed = host::traced_speeds(g, host::HostCosts::built_in());
    EXPECT_EQ(speed[2] > 2 * speed[0], launches > 6) << launches;
  }
}

TEST(Unprofiled, ATaskIsNeverOnlyItsRecording) {
  // 60 operations around each launch: recording them is said to cost more than the whole step.
  const graph::Graph g = Replay(step_at(1, 60)).graph;
  const host::CpuFactors none{.phase = {1, 1, 1}, .gpu = 1, .profiler = {1, 1, 1}};
  const graph::Graph left = apply(g, none, {});
  Ns before = 0, after = 0;
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t])) continue;
    before += g.cost[t];
    after += left.cost[t];
  }
  EXPECT_GT(static_cast<double>(after), 0.19 * static_cast<double>(before));
  EXPECT_LT(static_cast<double>(after), 0.3 * static_cast<double>(before));
}

TEST(Unprofiled, AStepTracedOnASlowDayIsNotAsSlowOnOthers) {
  const Ns fast = host::unprofiled(Replay(step_at(1)).graph, std::nullopt).step;
  const Ns slow = host::unprofiled(Replay(step_at(2)).graph, std::nullopt).step;
  EXPECT_GT(slow, fast);
  EXPECT_LT(static_cast<double>(slow), 1.9 * static_cast<double>(fast));
}

TEST(Unprofiled, EveryRecordedEventComesOff) {
  const graph::Graph few = Replay(step_at(1, 1)).graph;
  const graph::Graph many = Replay(step_at(1, 5)).graph;
  ASSERT_EQ(few.traced, many.traced);
  std::size_t ops = 0, calls = 0;
  for (std::size_t t = 0; t < many.size(); ++t) {
    ops += many.recorded_in(t).ops;
    calls += many.recorded_in(t).calls;
  }
  EXPECT_EQ(ops, 600u);
  EXPECT_EQ(calls, 100u);
  const double per_op = host::HostCosts::built_in().profiler.op_us *
                        host::HostCosts::built_in().profiler.remaining_share *
                        host::step_speed(1, host::HostCosts::built_in()) * 1e3;
  const auto saved =
      static_cast<double>(host::unprofiled(few, std::nullopt).step - host::unprofiled(many, std::nullopt).step);
  EXPECT_NEAR(saved, 400 * per_op, 0.15 * 400 * per_op);
}

TEST(Unprofiled, ItsCostComesOffOnce) {
  const graph::Graph g = Replay(step_at(1)).graph;
  const host::Unprofiled u = host::unprofiled(g, std::nullopt);
  EXPECT_TRUE(apply(g, u.factors, {}).recorded.empty());
}

// -- what the recorder timed

Result<host::Measured> with_phases(const std::string& phases) {
  TraceMaker m = step_at(1);
  trace::Trace t = m.load();
  t.metadata.emplace_back("foretrace", "{\"version\":1," + phases + "}");
  return host::measured_step(t, Replay(step_at(1)).graph, 0, {});
}

// One moment of a host that changes its speed: what the trace says counts too.
TEST(CpuPrior, PhasesTheRecorderTimedDecideTogetherWithTheTrace) {
  const graph::Graph g = Replay(step_at(1)).graph;
  const double by_trace = static_cast<double>(host::unprofiled(g, std::nullopt).step) / static_cast<double>(g.traced);
  for (const double timed : {0.3, 0.9}) {
    const Result<host::Measured> found = with_phases(
        fmt::format("\"phase_ms\":{{\"forward\":{}}},\"traced_phase_ms\":{{\"forward\":8.0,\"update\":1}}", 8 * timed));
    ASSERT_TRUE(found);
    ASSERT_TRUE(found->prior.timed_share[0]);
    EXPECT_FALSE(found->prior.timed_share[1]);
    EXPECT_FALSE(found->prior.timed_share[2]);
    const double left = *found->prior.timed_share[0];
    // By a third at the least.
    EXPECT_LT(std::abs(std::log(left / timed)), 0.71 * std::abs(std::log(timed / by_trace))) << timed;
    EXPECT_EQ(left > timed, by_trace > timed);
    const host::Unprofiled u = host::unprofiled(g, std::nullopt, found->prior);
    EXPECT_NEAR(static_cast<double>(u.step), left * static_cast<double>(g.traced),
                0.03 * static_cast<double>(g.traced));
  }
}

TEST(CpuPrior, APhaseThatBeginsBehindAFullQueueIsLeftToTheTrace) {
  for (const int launches : {500, 1500}) {
    TraceMaker m = step_at(1, 1, launches);
    m.range("Optimizer.step#Adam.step", (10 + 32 * (launches - 100)) * kUs, (10 + 32 * launches) * kUs);
    trace::Trace t = m.load();
    t.metadata.emplace_back("foretrace",
                            "{\"version\":1,\"phase_ms\":{\"update\":2.0},\"traced_phase_ms\":{\"update\":3.0},"
                            "\"phase_behind_ms\":{\"forward\":30,\"backward\":30,\"update\":0.1}}");
    const Result<host::Measured> found = host::measured_step(t, Replay(m).graph, 0, {});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->prior.timed_share[2].has_value(), launches < 1024) << launches;
  }
}

TEST(CpuPrior, AGpuThatKeepsUpHasRoomInItsQueue) {
  for (const double behind_ms : {0.1, 30.0}) {
    TraceMaker m = step_at(1, 1, 1500);
    trace::Trace t = m.load();
    t.metadata.emplace_back("foretrace",
                            fmt::format("{{\"version\":1,\"phase_ms\":{{\"forward\":30}},\"traced_phase_ms\":{{"
                                        "\"forward\":48}},\"phase_behind_ms\":{{\"forward\":{}}}}}",
                                        behind_ms));
    const Result<host::Measured> found = host::measured_step(t, Replay(m).graph, 0, {});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->prior.timed_share[0].has_value(), behind_ms < 1) << behind_ms;
  }
}

TEST(CpuPrior, TimesThatCannotBeThePhaseAreLeftAlone) {
  for (const char* wrong : {"\"phase_ms\":{\"forward\":80},\"traced_phase_ms\":{\"forward\":8}",
                            "\"phase_ms\":{\"forward\":-1},\"traced_phase_ms\":{\"forward\":8}",
                            "\"phase_ms\":{\"forward\":4},\"traced_phase_ms\":{\"forward\":0}",
                            "\"phase_ms\":[4],\"traced_phase_ms\":7", "\"phase_ms\":null"}) {
    const Result<host::Measured> found = with_phases(wrong);
    ASSERT_TRUE(found) << wrong;
    EXPECT_FALSE(found->prior.timed_share[0]) << wrong;
  }
}

}  // namespace
}  // namespace foretrace::whatif
