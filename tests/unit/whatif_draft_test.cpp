// The primitives: what they select, what they leave of a graph, and that nothing asked for is lost on the way.

#include <gmock/gmock.h>

#include "foretrace/whatif/draft.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "graph/soundness.hpp"
#include "random_graph.hpp"
#include "trace_maker.hpp"

namespace foretrace::whatif {
namespace {

using test::Replay;
using test::TraceMaker;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Graph parsed(const std::string& body) {
  Result<Graph> g = graph::parse("foretrace graph 1\n" + body);
  EXPECT_TRUE(g) << g.error().to_string();
  return g ? std::move(*g) : Graph{};
}

// Two threads' worth of operations: a linear layer around a product, and a product alone.
TraceMaker nested() {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.op("aten::linear", 5'000, 30'000).op("aten::addmm", 10'000, 25'000);
  m.launch(1, {12'000, 15'000}, "gemm", {17'000, 30'000});
  m.op("aten::addmm", 40'000, 50'000).launch(2, {42'000, 45'000}, "gemm", {47'000, 60'000});
  m.op("aten::relu", 55'000, 62'000).launch(3, {57'000, 60'000}, "relu", {62'000, 70'000});
  return m;
}

class Selecting : public testing::Test {
 protected:
  Selecting() : trace_(nested().load()) {
    const trace::Steps steps = trace::find_steps(trace_);
    graph_ = std::move(*graph::GraphBuilder(trace_, steps).build(0));
  }
  std::vector<std::string> names(const Selection& tasks) {
    std::vector<std::string> out;
    for (const std::uint32_t t : tasks) out.emplace_back(graph_.task_name(t));
    return out;
  }
  std::uint32_t task_named(std::string_view name, int nth) const {
    for (std::uint32_t t = 0; t < graph_.size(); ++t) {
      if (graph_.task_name(t) == name && nth-- == 0) return t;
    }
    ADD_FAILURE() << "no task " << name;
    return 0;
  }
  trace::Trace trace_;
  Graph graph_;
};

TEST_F(Selecting, AnOperationHoldsWhatLiesInsideIt) {
  const Draft draft(graph_, &trace_);
  EXPECT_THAT(draft.select({.kind = TaskKind::kKernel, .op = "aten::linear"}), testing::SizeIs(1));
  EXPECT_THAT(draft.select({.kind = TaskKind::kKernel, .op = "aten::addmm"}), testing::SizeIs(2));
  EXPECT_THAT(names(draft.select({.kind = TaskKind::kKernel, .op = "aten::*"})), ElementsAre("gemm", "gemm", "relu"));
  EXPECT_THAT(draft.select({.kind = TaskKind::kKernel, .op = "linear"}), IsEmpty());
}

TEST_F(Selecting, AKernelAtTheBeginOfANewLaneKeepsItsOperation) {
  const std::uint32_t gemm = task_named("gemm", 0);
  Draft draft(graph_, &trace_);
  const std::uint32_t lane = draft.add_lane(graph::GraphLaneKind::kGpu, "other stream", 0);
  const Place first = draft.insert({.name = "part 1",
                                    .cost = 5'000,
                                    .after = {graph_.launch[gemm].value, kNone},
                                    .cpu_cost = 1'000,
                                    .op = graph_.op[gemm],
                                    .lane = lane});
  draft.insert({.name = "part 2", .cost = 5'000, .after = first, .cpu_cost = 1'000, .op = graph_.op[gemm]});
  const Graph changed = draft.commit();
  ASSERT_TRUE(graph::verify(changed));
  ASSERT_EQ(changed.lanes.back().end - changed.lanes.back().begin, 2U);
  const std::uint32_t one = changed.lanes.back().begin;
  EXPECT_EQ(changed.task_name(one), "part 1");
  EXPECT_EQ(changed.task_name(one + 1), "part 2");
  EXPECT_TRUE(changed.launch[one].valid());
  EXPECT_EQ(Draft(changed, &trace_).select({.kind = TaskKind::kKernel, .op = "aten::linear"}).size(), 3U);
}

// An operation's CPU time goes with the last kernel it launched, whether its kernels go one by one or together.
TEST(Removing, AnOperationGoesWithTheLastOfItsKernels) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.op("aten::addmm", 10'000, 30'000).launch(1, {12'000, 15'000}, "fill", {17'000, 20'000});
  m.launch(2, {22'000, 25'000}, "gemm", {27'000, 50'000});
  const trace::Trace trace = m.load();
  const Graph g = std::move(*graph::GraphBuilder(trace, trace::find_steps(trace)).build(0));
  Draft by_parts(g, &trace);
  const auto of_the_operation = [&](const Draft& d) { return d.select({.kind = TaskKind::kCpu, .op = "aten::addmm"}); };
  const std::size_t all = of_the_operation(by_parts).size();
  ASSERT_GT(all, 0U);
  by_parts.remove(by_parts.select({.name = "fill"}), Draft::kWithLaunch);
  EXPECT_THAT(of_the_operation(by_parts), testing::SizeIs(all));
  EXPECT_THAT(by_parts.select({.kind = TaskKind::kCall}), testing::SizeIs(1));
  by_parts.remove(by_parts.select({.name = "gemm"}), Draft::kWithLaunch);
  EXPECT_THAT(of_the_operation(by_parts), IsEmpty());
  EXPECT_THAT(by_parts.select({.kind = TaskKind::kCall}), IsEmpty());
  Draft at_once(g, &trace);
  at_once.remove(at_once.select({.kind = TaskKind::kKernel}), Draft::kWithLaunch);
  EXPECT_EQ(at_once.select({}), by_parts.select({}));
  EXPECT_EQ(at_once.changed(), by_parts.changed());
}

TEST_F(Selecting, WhatFollowsAnOperationOnItsLane) {
  Draft draft(graph_, &trace_);
  EXPECT_THAT(names(draft.select({.kind = TaskKind::kKernel, .after = "aten::addmm"})), ElementsAre("gemm", "relu"));
  draft.remove(draft.select({.kind = TaskKind::kKernel, .op = "aten::addmm", .after = "aten::linear"}));
  // With the second product gone, the first one comes before the activation.
  EXPECT_THAT(names(draft.select({.kind = TaskKind::kKernel, .after = "aten::linear"})), ElementsAre("relu"));
}

TEST_F(Selecting, WithoutATraceNothingIsKnownOfOperations) {
  const Draft draft(graph_);
  EXPECT_THAT(draft.select({.op = "*"}), IsEmpty());
  EXPECT_THAT(draft.select({.kind = TaskKind::kKernel, .name = "g*"}), testing::SizeIs(2));
}

constexpr const char* kThreeStreams = R"(step "s" last=1
lane cpu "main"
task 0 begin
task 1 wait "end"
lane gpu "a" device=0 stream=1
task 2 kernel "x" cost=10000
> 3 stream-wait lag=100
lane gpu "b" device=0 stream=2
task 3 kernel "r" cost=5000
> 4 stream-wait lag=200
lane gpu "c" device=0 stream=3
task 4 kernel "y" cost=7000
> 1 sync lag=50
)";

TEST(Removing, WhatWaitedForATaskWaitsForWhatThatOneWaitedFor) {
  const Replay before(parsed(kThreeStreams));
  EXPECT_EQ(before.start("y"), 15'300);
  Draft draft(before.graph);
  draft.remove({3});
  const Replay after(draft.commit());
  EXPECT_EQ(after.start("y"), 10'300);  // the lags stay, the task is gone
  EXPECT_EQ(after.step(), 17'350);
}

TEST(Removing, ThroughSeveralRemovedTasks) {
  const Replay before(parsed(R"(step "s" last=0
lane cpu "main"
task 0 begin
lane gpu "a"
task 1 kernel "x" cost=10000
> 2 stream-wait
lane gpu "b"
task 2 kernel "r" cost=5000
> 3 stream-wait
lane gpu "c"
task 3 kernel "q" cost=5000
> 4 stream-wait
lane gpu "d"
task 4 kernel "y" cost=7000
)"));
  Draft draft(before.graph);
  draft.remove({2, 3});
  EXPECT_EQ(Replay(draft.commit()).start("y"), 10'000);
}

TEST(Removing, AWaitThatIsGoneNoLongerWaits) {
  const Replay before(parsed(R"(step "s" last=3
lane cpu "main"
task 0 begin
task 1 wait "item"
task 2 cpu "next" cost=1000
task 3 cpu "end"
lane gpu "a" device=0 stream=1
task 4 kernel "k" cost=50000
> 1 sync
)"));
  EXPECT_EQ(before.start("next"), 50'000);
  Draft draft(before.graph);
  draft.remove({1});
  EXPECT_EQ(Replay(draft.commit()).start("next"), 0);
}

// Two streams; "b" found the device full with "a" on it.
Graph sharing() {
  return parsed(R"(step "s" last=3
lane cpu "main"
task 0 begin
task 1 call "cudaLaunchKernel" cost=1000
> 4 launch
task 2 call "cudaLaunchKernel" cost=1000
> 5 launch
task 3 cpu "end"
lane gpu "first" device=0 stream=7
task 4 kernel "a" cost=5000 launch=1
lane gpu "second" device=0 stream=8
task 5 kernel "b" cost=5000 launch=2
< 4 share lag=10 slack=700000
)");
}

TEST(Cloning, CopiesShareTheDeviceAsTheirOriginalsDo) {
  const Graph g = sharing();
  Draft draft(g);
  const std::vector<std::uint32_t> copies = draft.clone({1, 2, 4, 5}, {});
  ASSERT_EQ(copies.size(), 4U);
  const Graph changed = draft.commit();
  ASSERT_TRUE(graph::verify(changed)) << graph::verify(changed).error().message;
  ASSERT_EQ(changed.soft_dependencies.size(), 2U);
  const Replay r(changed);
  EXPECT_EQ(changed.soft_dependencies[changed.soft[r.task("b", 1)]].from.value, r.task("a", 1));
  EXPECT_EQ(r.why("b", 1), DependencyKind::kShare);
}

TEST(Cloning, WhatIsInsertedBehindACopyComesBeforeTheNext) {
  const Graph g = sharing();
  Draft draft(g);
  const std::vector<std::uint32_t> copies = draft.clone({1, 2}, {});
  draft.insert_cpu(copies[0], "between", 1'000, Phase::kForward);
  const Graph changed = draft.commit();
  const graph::GraphLane& lane = changed.lanes[0];
  std::vector<std::string_view> last;
  for (std::uint32_t t = lane.end - 3; t < lane.end; ++t) last.push_back(changed.task_name(t));
  EXPECT_EQ(last[1], "between");
}

TEST(Relaxing, OnlySharesThatContradictAreLetGo) {
  // "b" waits for room behind "a", and a change lets the CPU launch "a" behind "b"; "d" waits behind "c" as before.
  Graph g = parsed(R"(step "s" last=3
lane cpu "main"
task 0 begin
task 1 call "cudaLaunchKernel" cost=1000
> 6 launch
task 2 call "cudaLaunchKernel" cost=1000
> 4 launch
task 3 cpu "end"
lane gpu "first" device=0 stream=7
task 4 kernel "a" cost=5000 launch=2
task 5 kernel "c" cost=5000
lane gpu "second" device=0 stream=8
task 6 kernel "b" cost=5000 launch=1
> 2 sync
< 4 share lag=10 slack=700000
task 7 kernel "d" cost=5000
< 5 share lag=10 slack=700000
)");
  EXPECT_FALSE(graph::verify(g));
  ASSERT_TRUE(graph::verify_or_relax(g));
  EXPECT_EQ(g.notes.dropped_soft, 1U);
  ASSERT_EQ(g.soft_dependencies.size(), 1U);
  EXPECT_EQ(g.task_name(g.soft_dependencies[0].from.value), "c");
  EXPECT_EQ(g.soft[6], kNone);
}

TEST(Depending, WhatContradictsALaneIsRefusedNotForgotten) {
  const Replay before(parsed(R"(step "s" last=2
lane cpu "main"
task 0 begin
task 1 cpu "first" cost=1000
task 2 cpu "second" cost=1000
)"));
  for (const auto& [from, to] : {std::pair{2U, 1U}, std::pair{1U, 1U}}) {
    Draft draft(before.graph);
    draft.depend(from, to, 0, DependencyKind::kSync);
    const Status sound = graph::verify(draft.commit());
    ASSERT_FALSE(sound);
    EXPECT_THAT(sound.error().message, HasSubstr("cycle"));
  }
}

constexpr const char* kNetwork = R"(step "s" last=1
lane cpu "main"
task 0 begin
task 1 wait "end"
lane gpu "compute" device=0 stream=1
task 2 kernel "late layer" cost=1000
> 4 stream-wait
task 3 kernel "early layer" cost=1000
> 5 stream-wait
> 6 stream-wait
lane network "ring"
task 4 collective "big" cost=5000
> 1 sync
task 5 collective "second" cost=5000
> 1 sync
task 6 collective "urgent" cost=5000
> 1 sync
)";

TEST(Scheduling, TheHighestPriorityGoesFirst) {
  const Replay before(parsed(kNetwork));
  EXPECT_EQ(before.start("urgent"), 11'000);
  Draft draft(before.graph);
  draft.schedule({6}, 5);
  const Replay after(draft.commit());
  EXPECT_EQ(after.start("big"), 1'000);  // already running when the others could
  EXPECT_EQ(after.start("urgent"), 6'000);
  EXPECT_EQ(after.start("second"), 11'000);
  EXPECT_EQ(after.step(), before.step());
}

TEST(Scheduling, PrioritiesStayWithTheirTasksThroughLaterChanges) {
  const Graph base = parsed(kNetwork);
  Draft draft(base);
  draft.schedule({6}, 5);
  const Graph scheduled = draft.commit();
  // Another what-if puts work in front, so that every id of the network lane moves.
  Draft later(scheduled);
  later.insert_cpu(0, "more work", 100, Phase::kOther);
  later.remove({2});
  const Replay after(later.commit());
  EXPECT_LT(after.start("urgent"), after.start("second"));
  EXPECT_TRUE(after.graph.lanes[2].by_priority);
}

TEST(Scheduling, EveryCopyOfARepeatedStepKeepsToIt) {
  const Graph base = parsed(kNetwork);
  Draft draft(base);
  draft.schedule({6}, 5);
  const Replay twice(graph::repeat(draft.commit(), 2));
  EXPECT_LT(twice.start("urgent", 0), twice.start("second", 0));
  EXPECT_LT(twice.start("urgent", 1), twice.start("second", 1));
}

TEST(Scheduling, TheTextOfAGraphHoldsIt) {
  const Graph base = parsed(kNetwork);
  Draft draft(base);
  draft.schedule({6}, 5);
  draft.schedule({4}, -2);
  const std::string text = graph::dump(draft.commit());
  const Result<Graph> again = graph::parse(text);
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(graph::dump(*again), text);
  EXPECT_EQ(again->priority_of(6), 5);
  EXPECT_EQ(again->priority_of(4), -2);
}

TEST(Draft, ScalingByOneAndInsertingThenRemovingChangeNothing) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Graph base = test::RandomGraph({.queue_depth = 0, .negative_lags = false, .seed = seed}).graph;
    const Ns step = simulate::simulate(base).step;
    Draft same(base);
    same.scale(same.select({}), 1.0);
    EXPECT_EQ(simulate::simulate(same.commit()).step, step);
    const Selection kernels = same.select({.where = [&](std::uint32_t t) { return base.launch[t].valid(); }});
    if (kernels.empty()) continue;
    Draft more(base);
    for (const std::uint32_t t : kernels) {
      more.insert(
          {.name = "inserted", .cost = 3'000, .after = {.cpu = base.launch[t].value, .gpu = t}, .cpu_cost = 500});
    }
    const Graph larger = more.commit();
    ASSERT_TRUE(graph::verify(larger));
    EXPECT_EQ(larger.size(), base.size() + 2 * kernels.size());
    Draft less(larger);
    less.remove(less.select({.name = "*inserted"}));
    const Graph back = less.commit();
    ASSERT_TRUE(graph::verify(back));
    EXPECT_EQ(simulate::simulate(back).step, step) << "seed " << seed;
  }
}

TEST_F(Selecting, DescriptionsFollowTheirTasks) {
  work::Works works = work::describe(trace_, graph_);
  ASSERT_EQ(works.size(), 3U);
  const std::uint32_t first = task_named("gemm", 0), second = task_named("gemm", 1), relu = task_named("relu", 0);
  const std::uint32_t row = works.row_of(first), other = works.row_of(second);
  const std::uint32_t cast = works.add(work::cast_work(1000, work::Dtype::kFp32, work::Dtype::kFp16));
  {  // costs alone
    work::Works changed = works;
    Draft draft(graph_, &trace_);
    draft.set(second, 5'000);
    draft.set_work(second, cast);
    const Graph g = draft.commit(changed);
    EXPECT_EQ(changed.row_of(first), row);
    EXPECT_EQ(changed.row_of(second), cast);
    EXPECT_EQ(works.row_of(second), other) << "the model's own stay as they are";
  }
  Draft draft(graph_, &trace_);
  draft.insert(
      {.name = "cast", .cost = 1'000, .after = {.cpu = graph_.launch[first].value, .gpu = first}, .work = cast});
  draft.set_work(second, cast);
  draft.clone({graph_.launch[second].value, second}, {relu});
  draft.remove({first});
  work::Works changed = works;
  const Graph g = draft.commit(changed);
  ASSERT_EQ(changed.of_task.size(), g.size());
  std::vector<std::uint32_t> rows;  // of what is on the GPU, in order
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t])) {
      rows.push_back(changed.row_of(t));
    } else {
      EXPECT_EQ(changed.of(t), nullptr);
    }
  }
  // The cast, the second product as changed, ReLU, and the copy of the product, which has its cost and its description as changed.
  EXPECT_THAT(rows, ElementsAre(cast, cast, works.row_of(relu), cast));
}

WhatIf made(std::string name) {
  return {.name = std::move(name),
          .about = "of a plugin",
          .parameters = {},
          .assumes = {},
          .source = {},
          .not_modelled = {},
          .needs = {},
          .code = {},
          .validated = false,
          .apply = [factor = 0.5](Model&, Draft& draft, const Parameters&) -> Status {
            draft.scale(draft.select({.gpu = true}), factor);
            return {};
          }};
}

TEST(Adding, AWhatIfOfAProgramIsKnownInAdditionToTheCatalogue) {
  EXPECT_FALSE(find_whatif("test-half"));
  ASSERT_TRUE(add_whatif(made("test-half")));
  const Result<Use> use = parse_use("test-half");
  ASSERT_TRUE(use);
  const std::size_t known = all_whatifs().size();
  ASSERT_TRUE(add_whatif(made("test-half")));  // again: replaced
  EXPECT_EQ(all_whatifs().size(), known);
  EXPECT_EQ(use->whatif->name, "test-half");  // and what was parsed before still holds
  const Result<const WhatIf*> wrong = find_whatif("test-hald");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().hint, HasSubstr("test-half"));
}

TEST(Adding, NamesOfTheCatalogueAndUnusableOnesAreRefused) {
  EXPECT_FALSE(add_whatif(made("amp")));
  EXPECT_FALSE(add_whatif(made("a:b")));
  EXPECT_FALSE(add_whatif(made("")));
}

TEST(Parsing, NumbersMustBeFinite) {
  for (const char* text : {"batch:x=nan", "batch:x=inf", "batch:x=-1", "batch:x=0"}) EXPECT_FALSE(parse_use(text));
}

}  // namespace
}  // namespace foretrace::whatif
