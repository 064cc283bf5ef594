// Time in a loader's range: it belongs to the range, and where workers make the batches, to them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foretrace/graph/graph.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "graph/loading.hpp"
#include "trace/ranges.hpp"
#include "trace_maker.hpp"

namespace foretrace::graph {
namespace {

using test::Replay;
using test::TraceMaker;
using testing::HasSubstr;
using trace::LoaderRange;

constexpr std::string_view kSingle = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
constexpr std::string_view kWorkers = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";

TEST(LoaderRanges, AreKnownByName) {
  EXPECT_EQ(trace::loader_range(kSingle), LoaderRange::kLoads);
  EXPECT_EQ(trace::loader_range(kWorkers), LoaderRange::kWaitsForWorkers);
  EXPECT_EQ(trace::loader_range("DataLoader.__next__"), LoaderRange::kLoads);
  EXPECT_EQ(trace::loader_range("_MultiProcessingDataLoaderIter.__next__"), LoaderRange::kWaitsForWorkers);
  EXPECT_EQ(trace::loader_range("## load data ##"), LoaderRange::kLoads);
  EXPECT_EQ(trace::loader_range("Data-Loading"), LoaderRange::kLoads);
  EXPECT_EQ(trace::loader_range("data"), LoaderRange::kLoads);
  EXPECT_EQ(trace::loader_range("[pl][profile][_TrainingEpochLoop].train_dataloader_next"), LoaderRange::kLoads);
  EXPECT_EQ(trace::loader_range("/x/torch/utils/data/dataloader.py(703): __next__"), LoaderRange::kLoads);
  EXPECT_EQ(trace::loader_range("multiprocessing/queues.py(365): get"), LoaderRange::kQueue);
  for (const char* other : {"", "##", "aten::add", "data_parallel", "layer:data|Linear", "get",
                            "transformers/pipelines/pt_utils.py(117): __next__"}) {
    EXPECT_EQ(trace::loader_range(other), LoaderRange::kNone) << other;
  }
}

// 47 ms without a call in the range, then calls of microseconds behind it.
TEST(Loading, AGapBelongsToTheRangeItIsIn) {
  for (const std::string_view name : {kSingle, std::string_view("load_batch")}) {
    TraceMaker m;
    m.step(1, 0, 60'000'000);
    m.range(name, 100'000, 47'100'000);
    m.call("cudaStreamIsCapturing", {47'200'000, 47'203'000}, 90);
    for (int i = 0; i < 10; ++i) {
      const Ns at = 47'300'000 + i * 1'000'000;
      m.op("aten::mul", at, at + 40'000);
      m.launch(i + 1, {at + 10'000, at + 20'000}, "mul", {at + 30'000, at + 900'000});
    }
    const Replay r(m);
    Ns loading = 0;
    for (std::uint32_t t = 0; t < r.graph.size(); ++t) {
      if (r.graph.phase[t] == Phase::kData) loading += r.graph.cost[t];
      EXPECT_FALSE(r.graph.task_name(t) == "cudaStreamIsCapturing" && r.graph.cost[t] > 1'000'000);
    }
    EXPECT_EQ(loading, 47'000'000) << name;
    EXPECT_EQ(r.graph.task_name(r.task(name)), name);
    const std::string verdict = simulate::bottleneck(r.graph).sentence();
    EXPECT_TRUE(verdict.starts_with("loader-bound")) << verdict;
  }
}

TEST(Loading, TheEndOfAnotherRangeIsItsOwnToo) {
  TraceMaker m;
  m.step(1, 0, 1'000'000);
  m.range("write log", 0, 500'000);
  m.op("aten::mul", 1'000, 41'000).launch(1, {10'000, 20'000}, "mul", {30'000, 100'000});
  m.op("aten::add", 600'000, 640'000).launch(2, {610'000, 620'000}, "add", {630'000, 700'000});
  const Replay r(m);
  EXPECT_EQ(r.graph.cost[r.task("write log")], 459'000);
}

TEST(Loading, AQueueThatLaunchesIsNoWait) {
  TraceMaker m;
  m.step(1, 0, 1'000'000);
  m.frame("multiprocessing/queues.py(365): get", 0, 990'000);
  m.op("aten::mul", 1'000, 41'000).launch(1, {10'000, 20'000}, "mul", {30'000, 100'000});
  m.op("aten::add", 600'000, 640'000).launch(2, {610'000, 620'000}, "add", {630'000, 700'000});
  const Replay r(m);
  for (std::uint32_t t = 0; t < r.graph.size(); ++t) EXPECT_NE(r.graph.phase[t], Phase::kData);
}

// 100 ms of which the main thread waits 60 for its workers; the rest is work.
TraceMaker waiting_step() {
  TraceMaker m;
  m.step(1, 0, 100'000'000);
  m.range(kWorkers, 0, 60'000'000);
  for (int i = 0; i < 40; ++i) {
    const Ns at = 60'000'000 + i * 1'000'000;
    m.op("aten::mul", at, at + 900'000);
    m.launch(i + 1, {at + 10'000, at + 20'000}, "mul", {at + 30'000, at + 240'000});
  }
  return m;
}

TEST(Loading, WorkersThatAreWaitedForMakeABatchPerStep) {
  const Replay r(waiting_step());
  const std::uint32_t lane = workers_lane(r.graph);
  ASSERT_NE(lane, kNone);
  EXPECT_TRUE(r.graph.periodic);
  const auto step = [&](const Graph& g) { return static_cast<double>(simulate::steady_state(g).timeline.step); };
  EXPECT_NEAR(step(r.graph), 100e6, 1e5);
  // Faster work gains nothing: the workers take as long as before.
  Graph faster = r.graph;
  for (std::uint32_t t = 0; t < faster.size(); ++t) {
    if (faster.lane[t] != lane) faster.cost[t] /= 10;
  }
  EXPECT_NEAR(step(faster), 100e6, 1e5);
  // Twice the workers: the work of the step decides.
  Graph more = r.graph;
  for (std::uint32_t t = more.lanes[lane].begin; t < more.lanes[lane].end; ++t) more.cost[t] /= 4;
  EXPECT_NEAR(step(more), 40e6, 1e6);
  const std::string verdict = simulate::bottleneck(r.graph).sentence();
  EXPECT_THAT(verdict, HasSubstr("loader-bound"));
}

TEST(Loading, WorkersAreKnownByTheRoleOfTheirLane) {
  const Replay r(waiting_step());
  const std::uint32_t lane = workers_lane(r.graph);
  ASSERT_NE(lane, kNone);
  // The text of a graph keeps the role.
  const Result<Graph> back = parse(dump(r.graph));
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(workers_lane(*back), lane);
  // The name is for people: another one changes nothing, and a thread of that name is no lane of workers.
  Graph renamed = r.graph;
  renamed.lanes[lane].name = renamed.strings.intern("fetchers");
  EXPECT_EQ(workers_lane(renamed), lane);
  renamed.lanes[lane].role = LaneRole::kWork;
  renamed.lanes[lane].name = r.graph.lanes[lane].name;
  EXPECT_EQ(workers_lane(renamed), kNone);
}

TEST(Loading, ABatchThatIsReadyIsNoWait) {
  TraceMaker m;
  m.step(1, 0, 100'000'000);
  m.range(kWorkers, 0, 200'000);
  m.op("aten::mul", 300'000, 400'000).launch(1, {310'000, 320'000}, "mul", {330'000, 90'000'000});
  const Replay r(m);
  EXPECT_EQ(workers_lane(r.graph), kNone);
}

}  // namespace
}  // namespace foretrace::graph
