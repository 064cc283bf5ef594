// Graphs of arbitrary traces and arbitrary texts of graphs.
//
// The first byte says which: an even one, the rest is a trace: every step it holds is built, with and without families of
// dependencies, and what comes out must be sound, run to its end, and survive its text form. An odd one, the rest is the
// text of a graph behind its first line: what is read must have no reference out of range, and run when it is sound.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "foretrace/graph/graph.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"

namespace {

using foretrace::Ns;
using foretrace::Result;
using foretrace::graph::BuildOptions;
using foretrace::graph::DependencyKind;
using foretrace::graph::Graph;

// A trace may claim thousands of steps; the first ones show as much as all of them.
constexpr std::size_t kMostSteps = 6;

void require(bool condition) {
  if (!condition) std::abort();
}

void run(const Graph& g) {
  const foretrace::simulate::SteadyState s = foretrace::simulate::steady_state(g);
  const Graph& ran = s.graph_of(g);
  const foretrace::simulate::Timeline& t = s.timeline;
  require(t.start.size() == ran.size());
  for (std::size_t i = 0; i < ran.size(); ++i) {
    require(t.start[i] >= 0 && t.end[i] - t.start[i] == ran.cost[i]);
    if (!ran.first_of_lane(i)) require(t.start[i] >= t.start[i - 1]);
  }
  const auto path = foretrace::simulate::critical_path(ran, t);
  require(!path.empty() && t.start[path.front().task] == 0);
  const foretrace::simulate::Breakdown b = foretrace::simulate::breakdown(ran, t);
  require(b.cpu_only + b.gpu_only + b.both + b.exposed_communication + b.idle == b.step);
  const foretrace::simulate::Bottleneck bound = foretrace::simulate::bottleneck(g);
  for (const double share : {bound.cpu, bound.gpu, bound.communication, bound.loading, bound.other_ranks, bound.all}) {
    require(share >= 0 && share <= 1);
  }
  require(!bound.sentence().empty());
}

void read_back(const Graph& g) {
  const std::string text = dump(g);
  const Result<Graph> back = foretrace::graph::parse(text);
  require(back.has_value());
  require(dump(*back) == text);
}

void build_all(std::string_view bytes, std::uint8_t way) {
  const auto trace = foretrace::trace::load_bytes(bytes, "fuzz.json", {.threads = 1, .partial = true});
  if (!trace) return;
  const foretrace::trace::Steps steps = foretrace::trace::find_steps(*trace);
  const foretrace::graph::GraphBuilder builder(*trace, steps);
  BuildOptions options;
  constexpr DependencyKind kFamilies[] = {DependencyKind::kNone,       DependencyKind::kLaunch, DependencyKind::kQueue,
                                          DependencyKind::kSync,       DependencyKind::kShare,  DependencyKind::kThread,
                                          DependencyKind::kStreamWait, DependencyKind::kBorder};
  options.without = {kFamilies[(way >> 1) & 7]};
  options.strict = (way & 16) != 0;
  options.device_gaps = (way & 32) == 0;
  for (std::size_t s = 0; s < steps.steps.size() && s < kMostSteps; ++s) {
    const Result<Graph> g = builder.build(s, options);
    if (!g) {
      require(g.error().code == foretrace::ErrorCode::kDeclined && !g.error().message.empty());
      continue;
    }
    require(verify(*g).has_value());
    run(*g);
    read_back(*g);
  }
}

void parse_text(std::string_view body) {
  const Result<Graph> g = foretrace::graph::parse("foretrace graph 1\n" + std::string(body));
  if (!g) {
    require(!g.error().message.empty());
    return;
  }
  read_back(*g);
  if (!verify(*g)) return;
  run(*g);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 1) == 0) {
    build_all(rest, data[0]);
  } else {
    parse_text(rest);
  }
  return 0;
}
