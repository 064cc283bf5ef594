#include "analysis/steadiness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/notable.hpp"
#include "base/readable.hpp"
#include "foretrace/simulate/simulate.hpp"

namespace foretrace::analysis {

Result<graph::Graph> build_graph(const graph::GraphBuilder& builder, std::size_t step,
                                 const graph::BuildOptions& options) {
  FORETRACE_TRY(graph::Graph graph, builder.build(step, options));
  if (graph.notes.startup.time() > 0) graph.traced = simulate::steady_state(graph).timeline.step;
  return graph;
}

std::string parts_of(const graph::Startup& s) {
  std::vector<std::pair<Ns, std::string_view>> parts = {{s.launches, "first launches of kernels"},
                                                        {s.allocation, "allocating memory"},
                                                        {s.loading, "loading and set-up"},
                                                        {s.tuning, "trying algorithms"},
                                                        {s.compiling, "compiling"},
                                                        {s.operations, "CPU time around them"}};
  std::erase_if(parts, [](const auto& part) { return part.first <= 0; });
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string out;
  for (const auto& [time, what] : parts)
    out += fmt::format("{}{} {} ms", out.empty() ? "" : ", ", what, format_ms(time));
  return out;
}

std::string cold_refusal(const graph::Graph& graph, Ns replayed) {
  const graph::Startup& s = graph.notes.startup;
  // What may be start-up or not must not decide the answer.
  if (s.time() <= 0 || !is_decisive(s.unsure, replayed)) return {};
  return fmt::format("{} is start-up: {} ms of it ({}), and {} ms of the rest may be, too", graph.step_name,
                     format_ms(s.time()), parts_of(s), format_ms(s.unsure));
}

std::string steadiness_text(const graph::Graph& graph) {
  const graph::Graph::Notes& n = graph.notes;
  if (n.startup.time() > 0) {
    return fmt::format("cold step: {} ms of start-up work are taken out ({})", format_ms(n.startup.time()),
                       parts_of(n.startup));
  }
  if (n.allocator > 0) {
    return fmt::format("{} ms of every step are calls that allocate driver memory and free it again: {}",
                       format_ms(n.allocator), kKeepMemory);
  }
  return {};
}

}  // namespace foretrace::analysis
