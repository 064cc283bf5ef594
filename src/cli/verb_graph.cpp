#include <fmt/format.h>

#include "base/byte_source.hpp"
#include "base/readable.hpp"
#include "cli/inputs.hpp"
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
  FORETRACE_TRY(const std::size_t step, graphs.choose(request.values.integer("step")));
  return graphs.graph(step);
}

Result<Answer> dump(const Request& request) {
  FORETRACE_TRY(const graph::Graph graph, build(request));
  if (!request.json) return Answer{graph::dump(graph)};
  return Answer{report::json_text([&](report::JsonWriter& json) {
    json.begin_object().member("schema", 1).member("verb", "graph").member("step", graph.step_name);
    json.member("tasks", graph.size()).member("dependencies", graph.dependencies()).member("text", graph::dump(graph));
    json.end_object();
  })};
}

// The graph of a trace or an exported file, or the text of one.
Result<graph::Graph> read_graph(const std::string& file, const Request& request) {
  FORETRACE_TRY(std::unique_ptr<ByteSource> source, open_source(file));
  Result<std::string> head = peek(source, kTextStart.size());
  if (!head) {
    head.error().file = file;
    return forward(head);
  }
  if (!head->starts_with(kTextStart)) return build(request);
  FORETRACE_TRY(const std::string text, read_file(file));
  Result<graph::Graph> parsed = graph::parse(text);
  if (!parsed) parsed.error().file = file;
  return parsed;
}

Result<Answer> check(const Request& request) {
  FORETRACE_TRY(const std::vector<std::string> found, locate_traces(request.values.argument("FILE"), request.load));
  const std::string& file = found.front();
  if (file == "-" || found.size() > 1) {
    return fail(ErrorCode::kUsage, "graph check takes one file", "give the text of a graph, an export or a trace");
  }
  FORETRACE_TRY(const graph::Graph g, read_graph(file, request));
  const Status sound = graph::verify(g);
  const Ns step = sound ? simulate::steady_state(g).timeline.step : 0;
  const int exit_code = sound ? kDone : kGateFailed;
  if (request.json) {
    return Answer{report::json_text([&](report::JsonWriter& json) {
                    json.begin_object().member("schema", 1).member("verb", "graph").member("file", file);
                    json.member("sound", sound.has_value()).key("problem");
                    sound ? json.null() : json.value(sound.error().message);
                    json.member("step", g.step_name).member("tasks", g.size()).member("dependencies", g.dependencies());
                    json.member("shares", g.soft_dependencies.size()).member("lanes", g.lanes.size());
                    json.member("layers", g.layers.size()).member_ms("traced_ms", g.traced);
                    json.member_ms("replayed_ms", step).end_object();
                  }),
                  exit_code};
  }
  const std::string result =
      sound ? fmt::format("sound: no cycle; {} ms as traced, {} ms simulated", format_ms(g.traced), format_ms(step))
            : printable(sound.error().message);
  return Answer{
      fmt::format("{}: {}, {}, {} on {}\n{}\n", printable(file), printable(g.step_name), plural(g.size(), "task"),
                  plural(g.dependencies(), "dependency", "dependencies"), plural(g.lanes.size(), "lane"), result),
      exit_code};
}

Result<Answer> run_graph(const Request& request) {
  return request.values.argument("ACTION").front() == "dump" ? dump(request) : check(request);
}

}  // namespace

Verb graph_verb() {
  return {.name = "graph",
          .about = "the dependency graph of a step as text, to read or to check",
          .details =
              "dump writes the graph of one step, the median one unless --step is given: one line per lane, task and "
              "dependency, times in nanoseconds. check proves that a graph can run: lanes cover all tasks, no cost is "
              "negative, there is no cycle. It takes such a text, an exported file or a trace, and exits with 1 when "
              "the graph is not sound.",
          .arguments = {{"ACTION", "one of", 1, 1, {"dump", "check"}},
                        {"FILE", "a trace; for check also the text of a graph", 1, Argument::kAny}},
          .examples = {{"foretrace graph dump trace.json.gz -o step.graph", "the median step as text"},
                       {"foretrace graph check step.graph", "proves that it can run"}},
          .shares = kStep | kReading,
          .run = run_graph};
}

}  // namespace foretrace::cli
