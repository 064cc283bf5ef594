#pragma once
// export: one step as it was measured and as it is simulated, written for another program, with the graph itself inside.
//
//   Result<Exported> file = export_step(trace, trace::find_steps(trace), {.format = "perfetto", .gzip = true});
//   Result<graph::Graph> graph = read_back("timeline.json.gz");      // the graph that was exported, equal in every column

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/base/time.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/steps.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::report {

struct ExportOptions {
  std::optional<std::int64_t> step;  ///< the number in ProfilerStep#N; default the median step
  std::string format = "perfetto";
  bool gzip = false;
  std::vector<std::string> whatifs;  ///< all together: "amp", "batch:x=2"; none: the step as it is
};

struct Exported {
  std::string bytes;  ///< the file
  std::string step;
  std::string hint;  ///< what to do with it: "open it in https://ui.perfetto.dev"
  std::uint64_t tasks = 0, dependencies = 0, critical_tasks = 0;
  Ns traced = 0, replayed = 0;
};

/// Turns a table of CSV into a file of another kind (Parquet), or says what it lacks for that.
using PackTable = std::function<Result<std::string>(const std::string& csv)>;
/// Empty: such formats are refused. Set by whoever can: the Python command and module.
PackTable& table_packer();

/// Fails when the step or the format does not exist (kUsage), or when the step cannot be simulated or changed
/// (kDeclined).
Result<Exported> export_step(const trace::Trace& trace, const trace::Steps& steps, const ExportOptions& options = {});

/// The graph inside a file that export_step wrote. Declined when the file holds none.
Result<graph::Graph> read_back(const std::string& path, const trace::LoadOptions& options = {});

}  // namespace foretrace::report
