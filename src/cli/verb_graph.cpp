#include <fmt/format.h>

#include "base/byte_source.hpp"
#include "base/readable.hpp"
#include "cli/traces.hpp"
#include "cli/verbs.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "report/json_writer.hpp"

namespace foretrace::cli {
namespace {

constexpr std::string_view kTextStart = "foretrace graph ";

Result<graph::Graph> build(const Request& request) {
  FORETRACE_TRY(const trace::Trace trace, load_one(request.values.argument("FILE"), request));
  FORETRACE_TRY(const analysis::StepGraphs graphs, analysis::StepGraphs::open(trace, trace::find_steps(trace)));
  std::size_t which = graphs.steps().steps.empty() ? 0 : graphs.median();
  if (const auto step = request.values.integer("step")) {
    FORETRACE_TRY(which, graphs.steps().by_number(*step));
  }
  Result<graph::Graph> graph = graphs.graph(which);
  if (!graph && graph.error().file.empty()) graph.error().file = trace.path;
  return graph;
}

Result<Answer> dump(const Request& request) {
  FORETRACE_TRY(const graph::Graph graph, build(request));
  if (!request.json) return Answer{graph::dump(graph)};
  Answer answer;
  report::JsonWriter json(answer.body);
  json.begin_object().member("schema", 1).member("verb", "graph").member("step", graph.step_name);
  json.member("tasks", graph.size()).member("dependencies", graph.dependencies()).member("text", graph::dump(graph));
  json.end_object();
  answer.body += "\n";
  return answer;
}

struct Checked {
  std::string problem;  ///< empty when the graph is sound
  graph::Graph graph;
  Ns step = 0;
};

Answer check_answer(const std::string& file, const Checked& c, bool as_json) {
  Answer answer;
  answer.exit_code = c.problem.empty() ? kDone : kGateFailed;
  const graph::Graph& g = c.graph;
  if (as_json) {
    report::JsonWriter json(answer.body);
    json.begin_object().member("schema", 1).member("verb", "graph").member("file", file);
    json.member("sound", c.problem.empty()).key("problem");
    c.problem.empty() ? json.null() : json.value(c.problem);
    json.member("step", g.step_name).member("tasks", g.size()).member("dependencies", g.dependencies());
    json.member("shares", g.soft_dependencies.size()).member("lanes", g.lanes.size());
    json.member("layers", g.layers.size()).member_ms("traced_ms", g.traced);
    json.member_ms("replayed_ms", c.step).end_object();
    answer.body += "\n";
    return answer;
  }
  const std::string what =
      fmt::format("{}: {}, {}, {} on {}", printable(file), printable(g.step_name), plural(g.size(), "task"),
                  plural(g.dependencies(), "dependency", "dependencies"), plural(g.lanes.size(), "lane"));
  answer.body = c.problem.empty() ? fmt::format("{}\nsound: no cycle; {} ms as traced, {} ms simulated\n", what,
                                                format_ms(g.traced), format_ms(c.step))
                                  : fmt::format("{}\n{}\n", what, printable(c.problem));
  return answer;
}

Result<Answer> check(const Request& request) {
  const std::vector<std::string>& files = request.values.argument("FILE");
  FORETRACE_TRY(const std::vector<std::string> found, locate_traces(files, request.load));
  const std::string& file = found.front();
  Checked c;
  if (file == "-" || found.size() > 1) {
    return fail(ErrorCode::kUsage, "graph check takes one file", "give the text of a graph, an export or a trace");
  }
  FORETRACE_TRY(std::unique_ptr<ByteSource> source, open_source(file));
  Result<std::string> head = peek(source, kTextStart.size());
  if (!head) {
    head.error().file = file;
    return forward(head);
  }
  if (head->starts_with(kTextStart)) {
    FORETRACE_TRY(const std::string text, read_file(file));
    Result<graph::Graph> parsed = graph::parse(text);
    if (!parsed) {
      parsed.error().file = file;
      return forward(parsed);
    }
    c.graph = std::move(*parsed);
  } else {
    FORETRACE_TRY(c.graph, build(request));
  }
  if (const Status sound = graph::verify(c.graph); !sound) {
    c.problem = sound.error().message;
  } else {
    c.step = simulate::steady_state(c.graph).timeline.step;
  }
  return check_answer(file, c, request.json);
}

Result<Answer> run_graph(const Request& request) {
  return request.values.argument("ACTION").front() == "dump" ? dump(request) : check(request);
}

}  // namespace

const Verb& graph_verb() {
  static const Verb kVerb{.name = "graph",
                          .about = "the dependency graph of a step as text, to read or to check",
                          .details =
                              "dump writes the graph of one step, the median one unless --step says otherwise: a line "
                              "per lane, task and dependency, times in nanoseconds. check proves that a graph can run: "
                              "lanes cover all tasks, no cost is negative, there is no cycle; it takes such a text, an "
                              "exported file or a trace, and ends with exit code 1 when the graph is not sound.",
                          .arguments = {{"ACTION", "one of", 1, 1, {"dump", "check"}},
                                        {"FILE", "a trace; for check also the text of a graph", 1, Argument::kAny}},
                          .examples = {{"foretrace graph dump trace.json.gz -o step.graph", "the median step as text"},
                                       {"foretrace graph check step.graph", "proves that it can run"}},
                          .reads_traces = true,
                          .picks_step = true,
                          .run = run_graph};
  return kVerb;
}

}  // namespace foretrace::cli
