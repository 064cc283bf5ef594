#include "foretrace/report/export.hpp"

#include <fmt/format.h>

#include "base/deflate.hpp"
#include "base/install_hint.hpp"
#include "base/suggest.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "report/exporter.hpp"

namespace foretrace::report {

Result<Exported> export_step(const trace::Trace& trace, const overview::ExportableStep& from,
                             const ExportOptions& options) {
  const Exporter* exporter = find_exporter(options.format);
  if (exporter == nullptr) {
    std::vector<std::string> names;
    for (const Exporter& e : exporters()) names.emplace_back(e.name);
    return fail(ErrorCode::kUsage, fmt::format("there is no export format '{}'", options.format),
                did_you_mean(options.format, names));
  }
  if (exporter->packed && !options.pack_table) {
    return fail(ErrorCode::kUsage, fmt::format("the format '{}' is written by the Python command", exporter->name),
                fmt::format("{}, and `pip install pyarrow`; or --format csv", kInstallModule));
  }
  const analysis::ReplayedStep& step = from.step;
  Exported out;
  out.bytes = exporter->write({step, from.has_events ? &trace : nullptr, trace});
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
