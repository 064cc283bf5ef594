// Tasks that slow each other: by hand, and against the plain engine where nothing is slowed.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "foretrace/simulate/simulate.hpp"
#include "random_graph.hpp"

namespace foretrace::test {
namespace {

using graph::Graph;

Graph text(std::string_view body) {
  Result<Graph> g = graph::parse(fmt::format("foretrace graph 1\nstep \"s\" last=0\n{}", body));
  if (!g) {
    ADD_FAILURE() << g.error().to_string();
    return {};
  }
  EXPECT_TRUE(graph::verify(*g));
  return std::move(*g);
}

// One kernel of 100 that overlaps a collective of 40 that starts at 20.
constexpr std::string_view kOverlap =
    "lane cpu \"c\"\n"
    "task 0 begin\n"
    "> 2 launch lag=20\n"
    "lane gpu \"s\" device=0 stream=7\n"
    "task 1 kernel cost=100\n"
    "lane network \"n\"\n"
    "task 2 collective cost=40\n";

simulate::Contention slow(const Graph& g, float kernels, float collectives) {
  simulate::Contention c;
  c.speed_in_communication.assign(g.size(), kernels);
  c.speed_in_computation.assign(g.size(), collectives);
  return c;
}

TEST(Contention, AKernelIsSlowedOnlyWhileTheCollectiveRuns) {
  const Graph g = text(kOverlap);
  const simulate::Contention c = slow(g, 0.5F, 1.0F);
  const simulate::Timeline t = simulate::simulate(g, {{}, nullptr, &c});
  EXPECT_EQ(t.end[2], 60);       // 20 + 40, at full speed
  EXPECT_EQ(t.end[1], 60 + 60);  // 20 alone, 20 of work in 40 together, 60 alone
}

TEST(Contention, ACollectiveIsSlowedWhileKernelsRun) {
  const Graph g = text(kOverlap);
  const simulate::Contention c = slow(g, 1.0F, 0.25F);
  const simulate::Timeline t = simulate::simulate(g, {{}, nullptr, &c});
  EXPECT_EQ(t.end[1], 100);
  EXPECT_EQ(t.end[2], 120);  // 80 together with the kernel do 20 of its 40, then 20 alone
}

TEST(Contention, TasksOfOneLinkShareIt) {
  const Graph g = text(
      "lane cpu \"c\"\n"
      "task 0 begin\n"
      "lane network \"a\"\n"
      "task 1 collective cost=100\n"
      "lane network \"b\"\n"
      "task 2 collective cost=50\n");
  simulate::Contention c;
  c.link = {kNone, 0, 0};
  c.links = 1;
  const simulate::Timeline t = simulate::simulate(g, {{}, nullptr, &c});
  EXPECT_EQ(t.end[2], 100);  // half speed until it is done
  EXPECT_EQ(t.end[1], 150);
}

RC_GTEST_PROP(Contention, WithoutEffectItIsThePlainEngine, ()) {
  RandomShape shape;
  shape.tasks = *rc::gen::inRange(1u, 80u);
  shape.dependencies = *rc::gen::inRange(0u, 80u);
  shape.seed = *rc::gen::arbitrary<std::uint64_t>();
  shape.soft = false;  // a soft dependency looks at what has started so far, which differs between the two
  const RandomGraph random(shape);
  const simulate::Contention c = slow(random.graph, 1.0F, 1.0F);
  const simulate::Timeline plain = simulate::simulate(random.graph);
  const simulate::Timeline timed = simulate::simulate(random.graph, {{}, nullptr, &c});
  for (std::size_t i = 0; i < random.graph.size(); ++i) {
    RC_ASSERT(plain.start[i] == timed.start[i]);
    RC_ASSERT(plain.end[i] == timed.end[i]);
  }
}

}  // namespace
}  // namespace foretrace::test
