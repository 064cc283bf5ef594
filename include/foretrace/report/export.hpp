#pragma once
// export: one step as traced and as simulated, written for another program, with the graph itself inside.
//
//   FORETRACE_TRY(const overview::ExportableStep step, overview::exportable_step(trace, trace::find_steps(trace)));
//   Result<Exported> file = export_step(trace, step, {.format = "perfetto", .gzip = true});
//   Result<graph::Graph> graph = read_back("timeline.json.gz");      // the exported graph, equal in every column

#include <cstdint>
#include <functional>
#include <string>

#include "foretrace/analysis/ranks.hpp"
#include "foretrace/base/result.hpp"
#include "foretrace/base/types.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/overview/overview.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::report {

/// Turns a table of CSV into a file of another kind (Parquet); an error says what is missing for that.
using PackTable = std::function<Result<std::string>(const std::string& csv)>;

struct ExportOptions {
  std::string format = "perfetto";
  bool gzip = false;
  PackTable pack_table = {};  ///< for formats that are packed tables; without it they are refused
};

struct Exported {
  std::string bytes;  ///< the file
  std::string step;
  std::string hint;  ///< what to do with it: "open it in https://ui.perfetto.dev"
  std::uint64_t tasks = 0, dependencies = 0, critical_tasks = 0;
  Ns traced = 0, replayed = 0;
};

/// Fails when the format does not exist or cannot be written here (kUsage).
Result<Exported> export_step(const trace::Trace& trace, const overview::ExportableStep& step,
                             const ExportOptions& options = {});

/// The graph inside a file that export_step wrote. Declined when the file holds none.
Result<graph::Graph> read_back(const std::string& path, const trace::LoadOptions& options = {});

// export of a whole job: one file in which every rank is a pair of processes (measured on aligned clocks, simulated), with
// the transfers between them, arrows from the last rank to arrive to those that waited, and the critical path across ranks.

/// Fails with kUsage for formats that hold one rank only.
Result<Exported> export_ranks(const ranks::Job& job, const analysis::RanksStep& step,
                              const ExportOptions& options = {});
/// The same of a changed job, which was not measured: every rank is one process, as simulated.
Result<Exported> export_changed_job(const overview::ChangedJob& job, const ExportOptions& options = {});
/// kUsage where the format holds one rank only.
Status holds_all_ranks(const ExportOptions& options);

// page: an overview of one step as one HTML file that needs nothing else: no server, no network.
//
//   FORETRACE_TRY(const overview::Overview all, overview::make_overview(trace, {.whatifs = {"amp"}}));
//   FORETRACE_TRY(const Page page, make_page(all, {.command = "foretrace report …"}));
//   page.html;
//
// The page holds the JSON of the other verbs, and the tasks of both timelines as packed, compressed columns. Names from the trace
// are data in it: the page only ever shows them as text.

struct PageOptions {
  std::string command = {};       ///< the command that made the page
  std::string compare_json = {};  ///< the JSON of `compare`, when there is an older recording
};

struct Page {
  std::string html;
  std::string answer;  ///< its first sentence
  std::size_t tasks = 0;
};

/// Fails when the timelines cannot be compressed (kInternal).
Result<Page> make_page(const overview::Overview& overview, const PageOptions& options);

}  // namespace foretrace::report
