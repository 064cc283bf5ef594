// Launches under another maker's driver: what their calls take, what later what-ifs add, and the band.

#include <gmock/gmock.h>

#include <cmath>

#include "base/percentiles.hpp"
#include "hardware/learnt.hpp"
#include "host/drivers.hpp"
#include "measured_step.hpp"
#include "whatif/rewrite/scaling.hpp"

namespace foretrace::whatif {
namespace {

using test::predicted;
using test::step_at;

Ns in_calls(const graph::Graph& g) {
  const std::vector<bool> calls = launch_calls(g);
  Ns sum = 0;
  for (std::size_t t = 0; t < g.size(); ++t) sum += calls[t] ? g.cost[t] : 0;
  return sum;
}

Ns of_cpu(const graph::Graph& g) {
  Ns sum = 0;
  for (std::size_t t = 0; t < g.size(); ++t) sum += graph::is_gpu(g.kind[t]) ? 0 : g.cost[t];
  return sum;
}

const BandPart* driver_part(const Prediction& p) {
  for (const BandPart& part : p.band) {
    if (part.family == "driver") return &part;
  }
  return nullptr;
}

TEST(Drivers, OneDirectionIsTheInverseOfTheOther) {
  const host::DriverChange there = host::launches_under("nvidia", "amd");
  const host::DriverChange back = host::launches_under("amd", "nvidia");
  EXPECT_NE(there.ratio, 1);
  EXPECT_DOUBLE_EQ(there.ratio * back.ratio, 1);
  EXPECT_GT(there.sigma, 0);
  EXPECT_EQ(there.sigma, back.sigma);
  EXPECT_EQ(host::launches_under("amd", "amd").ratio, 1);
  EXPECT_EQ(host::launches_under("nvidia", "nvidia").sigma, 0);
}

TEST(Drivers, LaunchCallsChangeAndNothingElseOfTheCpu) {
  Model m = step_at("data/h200-more/bert_l8.base.json.gz").model;
  const host::HostCosts before = m.host;
  Draft draft(m.graph);
  change_driver(m, draft, {.ratio = 0.5, .sigma = 0.1});
  const graph::Graph changed = draft.commit();
  const auto calls = static_cast<double>(in_calls(m.graph));
  ASSERT_GT(calls, 0);
  EXPECT_NEAR(static_cast<double>(in_calls(changed)) / calls, 0.5, 0.001);
  EXPECT_NEAR(static_cast<double>(of_cpu(m.graph) - of_cpu(changed)) / calls, 0.5, 0.001);
  EXPECT_EQ(m.driver_sigma, 0.1);
  // An operation that a later what-if inserts has one launch call in it, without what recording it took.
  const double call = before.reference.launch_call_us - before.profiler.call_us;
  EXPECT_NEAR(before.eager.op_us - m.host.eager.op_us, 0.5 * call, 1e-9);
  EXPECT_NEAR(m.host.reference.launch_call_us - m.host.profiler.call_us, 0.5 * call, 1e-9);
}

TEST(Drivers, TheCallOfACapturedGraphStays) {
  Model m = step_at("data/h200-clean/resnet50.graph.json.gz").model;
  const std::vector<bool> calls = launch_calls(m.graph);
  bool graphs = false;
  for (std::size_t t = 0; t < m.graph.size(); ++t) {
    if (!m.graph.name[t].valid() || m.graph.task_name(t) != "cudaGraphLaunch") continue;
    graphs = true;
    EXPECT_FALSE(calls[t]);
  }
  EXPECT_TRUE(graphs);
}

TEST(Drivers, TheBandHoldsWhatIsNotKnownWhereTheGpuWaits) {
  const Model waits = step_at("data/h200-more/bert_l8.base.json.gz").model;
  const BandPart* part = nullptr;
  const Prediction amd = predicted(waits, {"batch:x=0.125", "gpu:to=MI300X"});
  ASSERT_NE(part = driver_part(amd), nullptr);
  EXPECT_GT(part->up, amd.step / 200);
  EXPECT_GT(part->down, amd.step / 200);
  // On top of what published steps on such GPUs were off by, which is their GPU's own time.
  const hardware::Device mi300x = *hardware::find_device("MI300X");
  const double published = kTenthPercentile * hardware::learnt_spread(mi300x, false);
  EXPECT_GT(std::log(static_cast<double>(amd.high) / static_cast<double>(amd.step)), 1.0005 * published);
  EXPECT_EQ(driver_part(predicted(waits, {"gpu:to=A100-SXM4-80GB"})), nullptr);
  const Prediction busy = predicted(step_at("examples/resnet50-h200.json.gz").model, {"batch:x=4", "gpu:to=MI300X"});
  ASSERT_NE(part = driver_part(busy), nullptr);
  EXPECT_LT(part->up, busy.step / 200);
}

}  // namespace
}  // namespace foretrace::whatif
