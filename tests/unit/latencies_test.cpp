// Fixed latencies of two devices: each graph, step and change uses those of its own GPU.

#include "trace/latencies.hpp"

#include <gmock/gmock.h>

#include <string>

#include "base/data_files.hpp"
#include "hardware/tables.hpp"
#include "measured_step.hpp"
#include "trace_maker.hpp"

namespace foretrace {
namespace {

using trace::default_latencies;
using trace::Latencies;

constexpr Ns kTimes = 20;

// A made-up GPU whose driver takes twenty times as long for everything.
Latencies slow() {
  Latencies out = default_latencies();
  for (Ns* one : {&out.kernel_gap, &out.launch_latency, &out.graph_gap, &out.short_kernel, &out.empty_kernel,
                  &out.sync_return, &out.sync_call, &out.collective_start, &out.stream_hand_over, &out.result_ready}) {
    *one *= kTimes;
  }
  return out;
}

TEST(Latencies, EachDeviceHasItsOwnTable) {
  const std::string text = [] {
    const Latencies l = slow();
    return fmt::format(
        "kernel_gap,{}\nlaunch_latency,{}\ngraph_gap,{}\nshort_kernel,{}\nempty_kernel,{}\nsync_return,{}\n"
        "sync_call,{}\ncollective_start,{}\nstream_hand_over,{}\nresult_ready,{}\n",
        l.kernel_gap, l.launch_latency, l.graph_gap, l.short_kernel, l.empty_kernel, l.sync_return, l.sync_call,
        l.collective_start, l.stream_hand_over, l.result_ready);
  }();
  const std::string_view device = data_file("hardware/devices/H200-SXM.toml");
  for (const std::string name : {"A0", "Z9"}) {  // before and behind the reference device in the alphabet
    const std::string file = "hardware/devices/" + name + ".toml", table = "trace/latencies/" + name + ".csv";
    const hardware::Tables tables(DataFiles::shipped().with({file, device}).with({table, text}));
    const auto gap = [&](std::string_view of) { return tables.of(tables.device(of)).latencies.kernel_gap; };
    EXPECT_EQ(gap(name), kTimes * default_latencies().kernel_gap);
    EXPECT_EQ(gap("H200-SXM"), default_latencies().kernel_gap);
    EXPECT_EQ(gap("A100-SXM4-80GB"), gap("H200-SXM")) << "nobody measured it";
  }
}

TEST(Latencies, AGraphUsesThoseOfItsGpu) {
  test::TraceMaker m;
  m.step(1, 0, 100'000).launch(1, {12'000, 15'000}, "gemm", {17'000, 30'000});
  const trace::Trace trace = m.load();
  const trace::Steps steps = trace::find_steps(trace);
  const Latencies other = slow();
  const test::Replay own(*graph::GraphBuilder(trace, steps, other).build(0));
  const test::Replay reference(*graph::GraphBuilder(trace, steps).build(0));
  EXPECT_EQ(own.graph.lane_lag[own.task("gemm")], other.kernel_gap);
  EXPECT_EQ(reference.graph.lane_lag[reference.task("gemm")], default_latencies().kernel_gap);
}

class LatenciesOfAStep : public testing::Test {
 protected:
  [[nodiscard]] static whatif::Model example(const Latencies& latencies) {
    whatif::Model model = test::step_at("examples/resnet50-h200.json.gz").model;
    model.latencies = &latencies;
    return model;
  }
  const Latencies slow_ = slow();
};

TEST_F(LatenciesOfAStep, ChangesUseThoseOfTheStepsGpu) {
  for (const char* use : {"cuda-graph", "ddp:workers=8", "fsdp:workers=8"}) {
    const Ns here = test::predicted(example(default_latencies()), {use}).step;
    const Ns there = test::predicted(example(slow_), {use}).step;
    EXPECT_GT(there, here) << use;
  }
}

TEST_F(LatenciesOfAStep, AStepThatMovesToAnotherGpuTakesThatOnes) {
  const std::vector<std::string> moved = {"gpu:to=H100-SXM5", "cuda-graph"};
  EXPECT_EQ(test::predicted(example(slow_), moved).step, test::predicted(example(default_latencies()), moved).step);
}

TEST_F(LatenciesOfAStep, TheStepWithoutTheProfilerUsesThoseOfItsGpu) {
  const graph::Graph& graph = test::step_at("examples/resnet50-h200.json.gz").model.graph;
  host::CpuPrior prior;
  const auto lag_of = [&](const Latencies& latencies) {
    prior.latencies = &latencies;
    Ns sum = 0;
    const graph::Graph quiet = host::apply(graph, {}, prior);
    for (std::size_t d = 0; d < quiet.dep_lag.size(); ++d) {
      if (quiet.dep_kind[d] == graph::DependencyKind::kSync) sum += quiet.dep_lag[d];
    }
    return sum;
  };
  Latencies quick = default_latencies();
  quick.sync_return = 1;
  EXPECT_LT(lag_of(quick), lag_of(slow_));
}

}  // namespace
}  // namespace foretrace
