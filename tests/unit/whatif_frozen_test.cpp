// Steps that are mostly waits nobody explains: what-ifs say so instead of answering that nothing changes.

#include <gtest/gtest.h>

#include "analysis/make_model.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/analysis/replay.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "trace_maker.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::whatif {
namespace {

// A kernel of 100 us that starts `late` after its launch for no reason the trace gives, and the wait for it.
trace::Trace held_up(Ns late) {
  test::TraceMaker m;
  const Ns begin = 220'000 + late;
  m.step(1, 0, begin + 120'000);
  m.op("aten::mm", 0, 200'000).launch(1, {190'000, 195'000}, "gemm", {begin, begin + 100'000});
  m.call("cudaDeviceSynchronize", {200'000, begin + 105'000}, 2);
  return m.load();
}

Prediction twice_as_fast(const trace::Trace& trace) {
  const trace::Steps steps = trace::find_steps(trace);
  const graph::Graph graph = *graph::GraphBuilder(trace, steps).build(0);
  const Model model =
      *analysis::make_model(trace, steps.steps[0], graph, simulate::steady_state(graph).timeline.step, std::nullopt);
  return predict(model, {*parse_use("duration:select=*,x=0.5")}, std::nullopt, Detail::kFull);
}

const BandPart* unexplained(const Prediction& p) {
  for (const BandPart& part : p.band) {
    if (part.family == "unexplained waits") return &part;
  }
  return nullptr;
}

TEST(WhatIfFrozen, AStepThatMovesIsHardlyWider) {
  const Prediction p = twice_as_fast(held_up(10'000));
  EXPECT_EQ(p.declined, "");
  ASSERT_NE(unexplained(p), nullptr);
  EXPECT_LT(unexplained(p)->sigma, 0.15);
}

TEST(WhatIfFrozen, WaitsWithoutACauseWidenTheBand) {
  const Prediction p = twice_as_fast(held_up(250'000));
  EXPECT_EQ(p.declined, "");
  ASSERT_NE(unexplained(p), nullptr);
  EXPECT_GT(unexplained(p)->sigma, 0.2);
  EXPECT_LT(p.low, p.step * 3 / 4);
  // Waits that followed the change would make the step shorter still, and not longer.
  EXPECT_GT(unexplained(p)->down, 0);
  EXPECT_EQ(unexplained(p)->up, 0);
}

TEST(WhatIfFrozen, WhereMostIsWaitingTheyAreDeclined) {
  const Prediction p = twice_as_fast(held_up(2'000'000));
  EXPECT_NE(p.declined.find("waits that nothing in the trace explains"), std::string::npos) << p.declined;
}

TEST(WhatIfFrozen, ReplayAndItsJsonTellOfIt) {
  const trace::Trace trace = held_up(2'000'000);
  const Result<analysis::TraceReplay> r = analysis::replay(trace, trace::find_steps(trace));
  ASSERT_TRUE(r);
  EXPECT_GT(r->steps[0].limits.frozen_pct(), 80);
  EXPECT_GT(r->steps[0].limits.cpu_free_off_pct(), 100);
  EXPECT_FALSE(r->steps[0].period) << "no neighbour shows it";
  EXPECT_EQ(r->steps[0].cross_missing, "there is no other step");
  const std::string json = report::to_json(*r);
  for (const char* key : {"frozen_pct", "cpu_free_ms", "gpu_path_ms", "gpu_free_ms", "cpu_work_ms", "period_ms",
                          "error_vs_period_pct", "cross_missing"}) {
    EXPECT_NE(json.find(key), std::string::npos) << key;
  }
}

}  // namespace
}  // namespace foretrace::whatif
