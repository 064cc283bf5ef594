// What the number of launches and modules says of a phase's time, together with the times a trace shows.

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "foretrace/report/report.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "host/phase_counts.hpp"
#include "trace_maker.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::whatif {
namespace {

using test::Replay;
using test::TraceMaker;

constexpr Ns kUs = 1'000;
constexpr auto kForward = static_cast<std::size_t>(host::CpuPhase::kForward);
constexpr auto kUpdate = static_cast<std::size_t>(host::CpuPhase::kOptimizer);

/// A step that launches kernels of this name one by one, the last 40 of them in its update.
graph::Graph launching(const std::string& kernel, int layers = 0) {
  TraceMaker m;
  Ns at = 10 * kUs;
  const auto one = [&](int i, const std::string& name) {
    m.op("aten::add", at, at + 30 * kUs);
    m.launch(i, {at + 10 * kUs, at + 16 * kUs}, name, {at + 20 * kUs, at + 25 * kUs});
    at += 40 * kUs;
  };
  for (int i = 1; i <= 60; ++i) {
    if (i <= layers) m.range("layer:block." + std::to_string(i) + "|Linear", at - 1 * kUs, at + 35 * kUs);
    one(i, kernel);
  }
  const Ns begin = at;
  at += 5 * kUs;
  for (int i = 61; i <= 100; ++i) one(i, "adam");
  m.range("Optimizer.step#Adam.step", begin, at);
  m.step(3, 0, at + 10 * kUs);
  return Replay(m).graph;
}

TEST(PhaseCounts, LaunchesAndWhichOfThemAreGenerated) {
  const host::PhaseCounts plain = host::count_phases(launching("add"));
  EXPECT_EQ(plain.launches[kForward], 60);
  EXPECT_EQ(plain.launches[kUpdate], 40);
  EXPECT_EQ(plain.generated[kForward], 0);
  EXPECT_EQ(host::count_phases(launching("triton_poi_fused_add_0")).generated[kForward], 60);
}

TEST(PhaseCounts, ModulesAreRangesOfLayersOrWhatOperationsMakeLikely) {
  const host::HostCosts& host = host::HostCosts::built_in();
  EXPECT_EQ(host::count_phases(launching("add", 12)).modules(kForward, host), 12);
  EXPECT_NEAR(host::count_phases(launching("add")).modules(kForward, host), 60 * host.eager.modules_per_op, 1e-9);
  EXPECT_EQ(host::count_phases(launching("add", 12)).modules(kUpdate, host), 0);
  EXPECT_EQ(host::count_phases(launching("triton_poi_fused_add_0")).modules(kForward, host),
            0);  // compiled: none is called
}

TEST(PhaseCounts, APhaseLongerThanItsLaunchesUsuallyTakeBecomesShorter) {
  const host::HostCosts& host = host::HostCosts::built_in();
  const host::PhaseCounts counted = host::count_phases(launching("add"));
  const double usual = 40 * host.launches.us[kUpdate] * 1e3;
  EXPECT_NEAR(counted.correction(kUpdate, usual, host), 1, 1e-9);
  EXPECT_LT(counted.correction(kUpdate, 1.3 * usual, host), 0.97);
  EXPECT_GT(counted.correction(kUpdate, usual / 1.3, host), 1.03);
  // Ten times as long is another kind of phase.
  EXPECT_GT(counted.correction(kUpdate, 10 * usual, host), 0.95);
  // Forward is Python as much as launches: its times decide, unless generated code launches.
  EXPECT_EQ(counted.correction(kForward, 60 * host.launches.us[kForward] * 2e3, host), 1);
  const host::PhaseCounts compiled = host::count_phases(launching("triton_poi_fused_add_0"));
  const double pass = host.default_speed * (host.compiled.call_us + 60 * host.compiled.launch_us) * 1e3;
  EXPECT_LT(compiled.correction(kForward, 1.3 * pass, host), 0.9);
}

TEST(PhaseCounts, AFasterHostTakesLessForAsManyLaunches) {
  host::HostCosts host = host::HostCosts::built_in();
  const host::PhaseCounts counted = host::count_phases(launching("add"));
  const double usual = 40 * host.launches.us[kUpdate] * 1e3;
  host.speed = host.default_speed / 1.3;
  EXPECT_LT(counted.correction(kUpdate, usual, host), 0.97);
}

TEST(PhaseCounts, CallsOfModulesKeepTheirTimeUnderAProfiler) {
  host::HostCosts host = host::HostCosts::built_in();
  const double none = host::remaining_share(1'000 * kUs, 0, 1, host);
  EXPECT_NEAR(none, host.profiler.remaining_share * host::step_speed(1, host), 1e-9);
  EXPECT_GT(host::remaining_share(1'000 * kUs, 100, 1, host), none);
  EXPECT_NEAR(host::remaining_share(1'000 * kUs, 1e9, 1, host), host::step_speed(1, host),
              1e-9);  // nothing else is left
}

class Ddp : public testing::Test {
 protected:
  static const analysis::Baseline& solo() {
    static const trace::Trace kTrace =
        trace::load(std::string(FORETRACE_SOURCE_DIR) + "/data/h200-ranks/resnet50.mps.solo.w2.r0.json.gz").value();
    static const analysis::Baseline kBaseline = analysis::make_baseline(kTrace, std::nullopt, std::nullopt).value();
    return kBaseline;
  }
  static Ns cpu_named(const Model& m, const std::string& use, std::string_view name) {
    const Prediction p = predict(m, {parse_use(use).value()}, std::nullopt);
    EXPECT_EQ(p.declined, "");
    Ns sum = 0;
    for (std::size_t t = 0; t < p.graph.size(); ++t) {
      if (!graph::is_gpu(p.graph.kind[t]) && p.graph.task_name(t) == name) sum += p.graph.cost[t];
    }
    return sum;
  }
};

TEST_F(Ddp, CallsHooksAndTheWrapperCostWhatTheHostSays) {
  Model m = solo().model;
  const std::string use = "ddp:workers=2,fabric=25GbE";
  EXPECT_EQ(cpu_named(m, use, "DDP: forward"), m.cpu_time(m.host.ddp.forward_us, host::CpuPhase::kForward));
  const Ns calls = cpu_named(m, use, "DDP: all-reduce call");
  ASSERT_GT(calls, 0);
  m.host.ddp.collective_us *= 3;
  EXPECT_NEAR(static_cast<double>(cpu_named(m, use, "DDP: all-reduce call")), 3.0 * static_cast<double>(calls), 1e3);
}

TEST_F(Ddp, TheUpdateOfShardedTensorsUnwrapsEachOfThem) {
  const Model& m = solo().model;
  EXPECT_EQ(cpu_named(m, "fsdp:workers=2,fabric=25GbE", "FSDP: sharded tensors in the update"),
            m.cpu_time(161 * m.host.fsdp.update_tensor_us, host::CpuPhase::kOptimizer));
  EXPECT_EQ(cpu_named(m, "fsdp:workers=2,fabric=25GbE,version=1", "FSDP: sharded tensors in the update"), 0);
}

}  // namespace
}  // namespace foretrace::whatif
