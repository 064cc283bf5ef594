#pragma once
// export: one step as traced and as simulated, written for another program, with the graph itself inside.
//
//   FORETRACE_TRY(const overview::ExportableStep step, overview::exportable_step(trace, trace::find_steps(trace)));
//   Result<Exported> file = export_step(trace, step, {.format = "perfetto", .gzip = true});
//   Result<graph::Graph> graph = read_back("timeline.json.gz");      // the exported graph, equal in every column

#include <cstdint>
#include <functional>
#include <string>

#include "foretrace/base/result.hpp"
#include "foretrace/base/time.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/overview/overview.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::report {

struct ExportOptions {
  std::string format = "perfetto";
  bool gzip = false;
};

struct Exported {
  std::string bytes;  ///< the file
  std::string step;
  std::string hint;  ///< what to do with it: "open it in https://ui.perfetto.dev"
  std::uint64_t tasks = 0, dependencies = 0, critical_tasks = 0;
  Ns traced = 0, replayed = 0;
};

/// Turns a CSV table into a file of another kind (Parquet), or says what it lacks for that.
using PackTable = std::function<Result<std::string>(const std::string& csv)>;
/// Empty: such formats are refused. Set by a program that can pack tables: the Python command and module.
PackTable& table_packer();

/// Fails when the format does not exist or cannot be written here (kUsage).
Result<Exported> export_step(const trace::Trace& trace, const overview::ExportableStep& step,
                             const ExportOptions& options = {});

/// The graph inside a file that export_step wrote. Declined when the file holds none.
Result<graph::Graph> read_back(const std::string& path, const trace::LoadOptions& options = {});

}  // namespace foretrace::report
