#include "foretrace/report/export.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/deflate.hpp"
#include "base/suggest.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "report/exporter.hpp"

namespace foretrace::report {

namespace {

// The graph with the what-ifs in it, as it runs without the profiler.
Result<graph::Graph> changed(const trace::Trace& trace, const ExportOptions& options) {
  FORETRACE_TRY(const analysis::Baseline baseline, analysis::make_baseline(trace, options.step, std::nullopt));
  std::vector<whatif::Use> uses;
  for (const std::string& text : options.whatifs) {
    FORETRACE_TRY(whatif::Use use, whatif::parse_use(text));
    uses.push_back(std::move(use));
  }
  whatif::Prediction p = analysis::predict(baseline, uses, whatif::Detail::kStepOnly);
  if (!p.declined.empty()) return fail(ErrorCode::kDeclined, fmt::format("{}: {}", p.whatif, p.reason()));
  p.graph.step_name += " with " + p.whatif;
  return std::move(p.graph);
}

}  // namespace

Result<Exported> export_step(const trace::Trace& trace, const trace::Steps& steps, const ExportOptions& options) {
  const Exporter* exporter = find_exporter(options.format);
  if (exporter == nullptr) {
    std::vector<std::string> names;
    for (const Exporter& e : exporters()) names.emplace_back(e.name);
    return fail(ErrorCode::kUsage, fmt::format("there is no export format '{}'", options.format),
                did_you_mean(options.format, names));
  }
  if (exporter->packed && !options.pack_table) {
    return fail(ErrorCode::kUsage, fmt::format("the format '{}' is written by the Python command", exporter->name),
                "`pip install 'foretrace[arrow]'`, or --format csv");
  }
  FORETRACE_TRY(const analysis::StepGraphs graphs, analysis::StepGraphs::open(trace, steps));
  if (graphs.steps().steps.empty()) {
    return tl::unexpected(Error{ErrorCode::kDeclined, "the trace holds no event with a duration, so there is no step",
                                trace.path, Error::kNoOffset, "`foretrace doctor` shows what the file does hold"});
  }
  std::size_t which = graphs.median();
  if (options.step) {
    FORETRACE_TRY(which, graphs.steps().by_number(*options.step));
  }
  Result<graph::Graph> graph = graphs.graph(which);
  if (!graph) {
    graph.error().file = trace.path;
    return forward(graph);
  }
  if (!options.whatifs.empty()) {
    FORETRACE_TRY(*graph, changed(trace, options));
  }
  const analysis::ReplayedStep step = analysis::replay_step(std::move(*graph));
  Exported out;
  out.bytes = exporter->write({step, graphs.embedded() ? nullptr : &trace, trace});
  if (exporter->packed) {
    FORETRACE_TRY(out.bytes, options.pack_table(out.bytes));
  }
  if (options.gzip) {
    FORETRACE_TRY(out.bytes, deflate_gzip(out.bytes));
  }
  out.step = step.graph.step_name;
  out.hint = exporter->hint;
  out.tasks = step.graph.size();
  out.dependencies = step.graph.dependencies();
  out.critical_tasks = step.path.size();
  out.traced = step.traced();
  out.replayed = step.replayed();
  return out;
}

Result<graph::Graph> read_back(const std::string& path, const trace::LoadOptions& options) {
  FORETRACE_TRY(const trace::Trace trace, trace::load(path, options));
  return analysis::embedded_graph(trace);
}

}  // namespace foretrace::report
