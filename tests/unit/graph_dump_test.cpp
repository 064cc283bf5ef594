// Graphs as text: what is written reads back, and what is damaged is named with its line.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph_compare.hpp"
#include "trace_maker.hpp"

namespace foretrace::test {
namespace {

using graph::dump;
using graph::Graph;
using graph::parse;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kSmall =
    "foretrace graph 1\n"
    "step \"ProfilerStep#4\" traced=90000 last=3 periodic\n"
    "notes refuted_waits=2 unexplained_lags=1 unexplained_time=30000 queue_depth_measured\n"
    "layer 0 \"fc \\\"1\\\"\" \"Linear\"\n"
    "layer 1 \"aten::mm[4,4]\" \"\" synthetic\n"
    "lane cpu \"thread 1\" trace=3\n"
    "task 0 begin\n"
    "task 1 call \"cudaLaunchKernel\" cost=5000 at=10000 phase=forward layer=0 event=12 op=9\n"
    "> 5 launch lag=1600\n"
    "> 4 launch lag=-200 point=0\n"
    "task 2 wait \"cudaDeviceSynchronize\" at=80000\n"
    "task 3 cpu cost=10000 at=80000\n"
    "lane gpu \"GPU 0 stream 7\" trace=5 device=0 stream=7 queue=1021 queue_lag=-1900\n"
    "task 4 kernel \"tab\\x09and \\\\\" cost=40000 lag=1200 at=16600 phase=backward layer=1 launch=1 event=14 op=9\n"
    "lane gpu \"GPU 0 stream 8\" trace=6 device=0 stream=8\n"
    "task 5 collective \"nccl\" cost=50000 at=16600 phase=communication launch=1 event=15\n"
    "< 4 share lag=20 point=32768 slack=500000\n"
    "> 2 sync lag=5000\n";

TEST(GraphDump, TextReadsBackAndIsWrittenAgainTheSame) {
  const Result<Graph> g = parse(kSmall);
  ASSERT_TRUE(g) << g.error().to_string();
  EXPECT_TRUE(graph::verify(*g));
  EXPECT_EQ(dump(*g), kSmall);
  EXPECT_EQ(g->step_name, "ProfilerStep#4");
  EXPECT_EQ(g->traced, 90'000);
  EXPECT_TRUE(g->periodic);
  EXPECT_EQ(g->notes.refuted_waits, 2U);
  EXPECT_EQ(g->notes.unexplained_time, 30'000);
  EXPECT_TRUE(g->notes.queue_depth_measured);
  EXPECT_EQ(g->strings[g->layers[0].name], "fc \"1\"");
  EXPECT_TRUE(g->layers[1].synthetic);
  EXPECT_EQ(g->task_name(4), "tab\tand \\");
  EXPECT_EQ(g->lanes[1].queue_lag, -1'900);
  EXPECT_EQ(g->lanes[0].device, -1);
  EXPECT_EQ(g->lane[5], 2U);
  EXPECT_EQ(g->dep_point[1], 0U);
  EXPECT_EQ(g->soft_dependencies[g->soft[5]].slack, 500'000);
  EXPECT_FALSE(g->event[2].valid());
}

TEST(GraphDump, TheGraphOfATraceReadsBack) {
  const auto trace = trace::load(std::string(FORETRACE_SOURCE_DIR) + "/examples/resnet50-h200.json.gz");
  ASSERT_TRUE(trace) << trace.error().to_string();
  const trace::Steps steps = trace::find_steps(*trace);
  const graph::GraphBuilder builder(*trace, steps);
  for (std::size_t s = 0; s < steps.steps.size(); ++s) {
    const Result<Graph> g = builder.build(s);
    ASSERT_TRUE(g);
    const std::string text = dump(*g);
    const Result<Graph> back = parse(text);
    ASSERT_TRUE(back) << back.error().to_string();
    expect_same_graph(*g, *back);
    EXPECT_EQ(dump(*back), text);
    EXPECT_EQ(simulate::simulate(*back).step, simulate::simulate(*g).step);
  }
}

TEST(GraphDump, WindowsLineEndsAndBlankLinesAreFine) {
  std::string text(kSmall);
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 4) text.replace(at, 1, "\r\n\r\n");
  const Result<Graph> g = parse(text);
  ASSERT_TRUE(g) << g.error().to_string();
  EXPECT_EQ(dump(*g), kSmall);
}

std::string error_of(std::string_view from, std::string_view to) {
  std::string text(kSmall);
  const std::size_t at = text.find(from);
  if (at == std::string::npos) {
    ADD_FAILURE() << from << " is not in the text";
    return {};
  }
  text.replace(at, from.size(), to);
  const Result<Graph> g = parse(text);
  if (g) {
    ADD_FAILURE() << "accepted: " << to;
    return {};
  }
  EXPECT_EQ(g.error().code, ErrorCode::kUnreadable);
  return g.error().message;
}

TEST(GraphDump, ErrorsNameTheLine) {
  EXPECT_THAT(error_of("foretrace graph 1", "foretrace graph 2"), StartsWith("line 1: not the text of a graph"));
  EXPECT_THAT(error_of("task 2 wait", "tusk 2 wait"),
              AllOf(StartsWith("line 11: 'tusk' starts no line"), HasSubstr("task")));
  EXPECT_THAT(error_of("task 2 wait", "task 3 wait"), "line 11: task 3 must follow task 1");
  EXPECT_THAT(error_of("task 2 wait", "task 2 weight"), AllOf(StartsWith("line 11: 'weight'"), HasSubstr("wait")));
  EXPECT_THAT(error_of("cost=5000", "cost=-5"), StartsWith("line 8: cost must be a whole number from 0"));
  EXPECT_THAT(error_of("cost=5000", "cost=9999999999999999"), StartsWith("line 8: cost"));
  EXPECT_THAT(error_of("cost=5000", "coast=5000"), "line 8: 'coast' is not known here");
  EXPECT_THAT(error_of("phase=forward", "phase=sideward"), AllOf(StartsWith("line 8:"), HasSubstr("backward")));
  EXPECT_THAT(error_of("layer=0", "layer=7"), "line 8: layer 7 does not exist; there are 2");
  EXPECT_THAT(error_of("> 5 launch", "> 50 launch"), "line 9: task 50 does not exist; the graph has 6");
  EXPECT_THAT(error_of("> 5 launch", "> 5 lunch"), AllOf(StartsWith("line 9: 'lunch'"), HasSubstr("launch")));
  EXPECT_THAT(error_of("> 5 launch", "> 5 lane"), "line 9: a dependency 'lane' has no line of its own");
  EXPECT_THAT(error_of("point=0", "point=65537"), StartsWith("line 10: point must be"));
  EXPECT_THAT(error_of("launch=1 event=14", "launch=99 event=14"), "line 14: task 99 does not exist; the graph has 6");
  EXPECT_THAT(error_of("< 4 share", "< 4 sync"), StartsWith("line 17: only 'share'"));
  EXPECT_THAT(error_of("lane cpu \"thread 1\"", "lane cpu thread"), "line 6: the lane's name in quotes is missing");
  EXPECT_THAT(error_of("\"thread 1\"", "\"thread 1"), StartsWith("line 6: the lane's name is not closed"));
  EXPECT_THAT(error_of("\\x09", "\\xg9"), HasSubstr("two hexadecimal digits"));
  EXPECT_THAT(error_of("\\x09", "\\q"), HasSubstr("unknown escape"));
  EXPECT_THAT(error_of("layer 1 ", "layer 2 "), "line 5: layer 2 must follow layer 0");
  EXPECT_THAT(error_of("lane cpu \"thread 1\" trace=3\n", ""), "line 6: a task before the first lane");
  EXPECT_THAT(error_of("last=3", "last=6"), HasSubstr("last=N"));
  EXPECT_THAT(error_of("last=3", "last=3 main=3"), HasSubstr("lane 3 as main"));
  EXPECT_THAT(error_of("last=3", "last=3 copies=3"), HasSubstr("copies"));
}

TEST(GraphDump, NothingIsNoGraph) {
  EXPECT_THAT(parse("").error().message, HasSubstr("empty"));
  EXPECT_THAT(parse("foretrace graph 1\nstep \"x\" last=0\n").error().message, HasSubstr("no task"));
  EXPECT_FALSE(parse("foretrace graph 1\n> 0 launch\n"));
  EXPECT_FALSE(parse("foretrace graph 1\n< 0 share\n"));
  EXPECT_FALSE(parse(std::string(1000, '\0')));
}

TEST(GraphDump, EveryPrefixIsReadOrRefused) {
  // A text cut anywhere is refused or gives a graph whose references all exist.
  for (std::size_t length = 0; length < kSmall.size(); ++length) {
    const Result<Graph> g = parse(kSmall.substr(0, length));
    if (!g) continue;
    EXPECT_TRUE(graph::verify(*g)) << length;
  }
}

TEST(GraphVerify, SaysWhatIsWrong) {
  const Graph sound = *parse(kSmall);
  const auto said = [](const Graph& g) {
    const Status status = graph::verify(g);
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(said(sound), "");
  Graph g = sound;
  g.cost[4] = -1;
  EXPECT_THAT(said(g), HasSubstr("task 4 has a negative cost"));
  g = sound;
  g.dep_to[0] = 6;
  EXPECT_THAT(said(g), HasSubstr("does not exist"));
  g = sound;
  g.launch[4] = TaskId{9u};
  EXPECT_THAT(said(g), HasSubstr("launched by a task that does not exist"));
  g = sound;
  g.lane[4] = 0;
  EXPECT_THAT(said(g), HasSubstr("not on its lane"));
  g = sound;
  g.lanes[1].end = 5;
  g.lanes[1].begin = 3;
  EXPECT_THAT(said(g), HasSubstr("lane 1"));
  g = sound;
  g.lanes.pop_back();
  EXPECT_THAT(said(g), HasSubstr("lane"));
  g = sound;
  g.layer[1] = graph::LayerId{2u};
  EXPECT_THAT(said(g), HasSubstr("layer"));
  g = sound;
  g.last = TaskId{};
  EXPECT_THAT(said(g), HasSubstr("no end"));
  g = sound;
  g.measured.push_back(0);
  EXPECT_THAT(said(g), HasSubstr("different lengths"));
  g = sound;
  graph::finish(g, {{5, 2, 0, graph::kWhole, graph::DependencyKind::kSync},
                    {2, 1, 0, graph::kWhole, graph::DependencyKind::kThread}});
  EXPECT_THAT(said(g), HasSubstr("a cycle through task"));
}

}  // namespace
}  // namespace foretrace::test
