// Every what-if, alone and behind others, over the seeds of the chain's fuzz target: small real steps, among them inference with
// memory events, kernels without a launch and a CUDA graph. And the order of launches those answers rest on.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "foretrace/report/report.hpp"
#include "foretrace/trace/load.hpp"
#include "sweep/uses.hpp"
#include "whatif/model/call_order.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::whatif {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::filesystem::path> seeds() {
  std::vector<std::filesystem::path> all;
  for (const auto& entry : std::filesystem::directory_iterator(FORETRACE_SOURCE_DIR "/tests/fuzz/corpus/chain_fuzz")) {
    all.push_back(entry.path());
  }
  std::sort(all.begin(), all.end());
  return all;
}

class Chain : public testing::TestWithParam<std::filesystem::path> {
 protected:
  void SetUp() override {
    std::ifstream file(GetParam(), std::ios::binary);
    text_.assign(std::istreambuf_iterator<char>(file), {});
    auto loaded = trace::load_bytes(std::string_view(text_).substr(1), "seed.json", {.partial = true});
    ASSERT_TRUE(loaded) << loaded.error().to_string();
    trace_ = std::make_unique<trace::Trace>(std::move(*loaded));
    auto baseline = analysis::make_baseline(*trace_, std::nullopt, std::nullopt);
    if (baseline) baseline_.emplace(std::move(*baseline));
  }
  std::string text_;
  std::unique_ptr<trace::Trace> trace_;
  std::optional<analysis::Baseline> baseline_;
};

TEST_P(Chain, EveryWhatIfAnswersOrSaysWhyNot) {
  if (!baseline_) GTEST_SKIP() << "declined";
  for (const std::string& text : sweep::every_use()) {
    const Prediction p = predict(baseline_->model, {sweep::parsed(text)}, std::nullopt);
    EXPECT_THAT(p.declined, Not(HasSubstr("not sound"))) << text;
    if (p.declined.empty()) {
      EXPECT_LE(p.low, p.step) << text;
      EXPECT_GE(p.high, p.step) << text;
    }
  }
}

TEST_P(Chain, AlsoBehindAnother) {
  if (!baseline_) GTEST_SKIP() << "declined";
  for (const std::string& first : sweep::first_uses()) {
    for (const std::string& second : sweep::every_use()) {
      const Prediction p =
          predict(baseline_->model, {sweep::parsed(first), sweep::parsed(second)}, std::nullopt, Detail::kStepOnly);
      EXPECT_THAT(p.declined, Not(HasSubstr("not sound"))) << first << " + " << second;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Chain, testing::ValuesIn(seeds()),
                         [](const auto& seed) { return seed.param.filename().string(); });

// A scheme's hooks take as long as work of the program's own, and stand between launches that become one. In this step the CPU
// reads back a number in the middle, through a queue that is full of the graph.
TEST(Stacks, ACudaGraphCapturesWhatASchemePutBetweenLaunches) {
  const auto trace = trace::load(FORETRACE_SOURCE_DIR "/data/h200-heldout/moe.base.json.gz");
  ASSERT_TRUE(trace) << trace.error().to_string();
  const auto baseline = analysis::make_baseline(*trace, std::nullopt, std::nullopt);
  ASSERT_TRUE(baseline) << baseline.error().to_string();
  const Prediction p = predict(baseline->model, {sweep::parsed("fsdp"), sweep::parsed("cuda-graph")}, std::nullopt);
  EXPECT_EQ(p.declined, "");
  for (std::uint32_t t = 0; t < p.graph.size(); ++t) {
    EXPECT_THAT(std::string(p.graph.task_name(t)), Not(HasSubstr("FSDP: gather parameters")));
  }
}

TEST(CallOrder, AlongALaneAndAcrossLanes) {
  CallOrder order(3);
  order.wait({0, 12}, {1, 4});  // lane 1 goes on behind task 12 of lane 0
  order.wait({1, 9}, {0, 20});  // and lane 0 behind task 9 of lane 1
  order.wait({0, 25}, {2, 0});
  order.settle();
  EXPECT_TRUE(order.before({0, 3}, {0, 4}));
  EXPECT_FALSE(order.before({0, 4}, {0, 4}));
  EXPECT_TRUE(order.before({0, 12}, {1, 4}));
  EXPECT_FALSE(order.before({0, 13}, {1, 4}));
  EXPECT_FALSE(order.before({0, 1}, {1, 3}));
  EXPECT_TRUE(order.before({1, 5}, {0, 20}));
  EXPECT_TRUE(order.before({1, 9}, {2, 7}));  // through lane 0
  EXPECT_FALSE(order.before({1, 10}, {2, 7}));
  EXPECT_EQ(order.known({2, 0}, 0), 26u);
  EXPECT_EQ(order.known({1, 3}, 0), 0u);
}

TEST(CallOrder, ThreadsThatWaitForEachOtherEnd) {
  CallOrder order(2);
  order.wait({0, 5}, {1, 1});
  order.wait({1, 3}, {0, 2});
  order.settle();
  EXPECT_TRUE(order.before({0, 5}, {1, 1}));
  EXPECT_TRUE(order.before({1, 3}, {0, 2}));
}

Graph parsed(const std::string& body) {
  Result<Graph> g = graph::parse("foretrace graph 1\n" + body);
  EXPECT_TRUE(g) << g.error().to_string();
  return g ? std::move(*g) : Graph{};
}

// Two kernels and the calls that launch them.
Graph two_launches(const char* first = "cudaLaunchKernel") {
  return parsed(fmt::format(R"(step "s" last=3
lane cpu "main"
task 0 begin
task 1 call "{}" cost=1000
> 4 launch
task 2 call "cudaLaunchKernel" cost=1000
> 5 launch
task 3 cpu "end"
lane gpu "a" device=0 stream=7
task 4 kernel "first" cost=5000 launch=1
task 5 kernel "second" cost=5000 launch=2
)",
                            first));
}

std::vector<std::string> stream_of(const Graph& g) {
  std::vector<std::string> names;
  for (std::uint32_t t = g.lanes.back().begin; t < g.lanes.back().end; ++t) names.emplace_back(g.task_name(t));
  return names;
}

TEST(LaunchOrder, ACallDecidesWhereItsKernelStands) {
  const Graph g = two_launches();
  Draft draft(g);
  // Asked for behind the second kernel, launched before it; and the thread waits for it before it launches that one.
  const Place kernel = draft.insert({.name = "new", .cost = 100, .after = {.cpu = 1, .gpu = 5}, .cpu_cost = 10});
  draft.depend(kernel.gpu, draft.insert_wait(kernel.cpu, "wait"), 0, DependencyKind::kSync);
  const Graph changed = draft.commit();
  EXPECT_TRUE(graph::verify(changed)) << graph::verify(changed).error().message;
  EXPECT_THAT(stream_of(changed), testing::ElementsAre("first", "new", "second"));
  EXPECT_FALSE(draft.contradicted());
}

TEST(LaunchOrder, WhatIsAskedForStaysWhereCallsAllowIt) {
  const Graph g = two_launches();
  Draft draft(g);
  draft.insert({.name = "third", .cost = 100, .after = {.cpu = 2, .gpu = 5}});
  draft.insert({.name = "between", .cost = 100, .after = {.cpu = 1, .gpu = 4}});
  EXPECT_THAT(stream_of(draft.commit()), testing::ElementsAre("first", "between", "second", "third"));
}

TEST(LaunchOrder, BehindATaskOfACudaGraphOneCallLaunchesAll) {
  const Graph g = two_launches("cudaGraphLaunch");
  Draft draft(g);
  const Place kernel = draft.insert({.name = "new", .cost = 100, .after = {.cpu = 0, .gpu = 4}, .cpu_cost = 10});
  draft.depend(kernel.gpu, draft.insert_wait(kernel.cpu, "wait"), 0, DependencyKind::kSync);
  const Graph changed = draft.commit();
  ASSERT_TRUE(graph::verify(changed)) << graph::verify(changed).error().message;
  EXPECT_THAT(stream_of(changed), testing::ElementsAre("first", "new", "second"));
  const std::uint32_t first = changed.lanes.back().begin;
  EXPECT_EQ(changed.launch[first], changed.launch[first + 1]);
}

TEST(LaunchQueue, NoCallWaitsForWhatItLaunches) {
  // A queue of one: without the rule, the graph's launch would wait for its own first kernel.
  const Graph g = parsed(R"(step "s" last=2
lane cpu "main"
task 0 begin
task 1 call "cudaGraphLaunch" cost=1000
> 3 launch
> 5 launch
task 2 cpu "end"
lane gpu "a" device=0 stream=7 queue=2
task 3 kernel "first" cost=5000 launch=1
task 4 kernel "of nobody" cost=5000
task 5 kernel "second" cost=5000 launch=1
)");
  EXPECT_TRUE(graph::verify(g));
  EXPECT_FALSE(graph::queued_behind(g, 3).valid());
}

}  // namespace
}  // namespace foretrace::whatif
