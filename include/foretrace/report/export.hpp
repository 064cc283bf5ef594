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
#include "foretrace/base/types.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/host/measured_step.hpp"
#include "foretrace/ranks/job.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/steps.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::report {

/// Turns a table of CSV into a file of another kind (Parquet); an error says what is missing for that.
using PackTable = std::function<Result<std::string>(const std::string& csv)>;

struct ExportOptions {
  std::optional<std::int64_t> step;  ///< the number in ProfilerStep#N; default the median step
  std::string format = "perfetto";
  bool gzip = false;
  std::vector<std::string> whatifs;  ///< all together: "amp", "batch:x=2"; none: the step as it is
  PackTable pack_table = {};         ///< for formats that the library cannot write itself; without one they are refused
};

struct Exported {
  std::string bytes;  ///< the file
  std::string step;
  std::string hint;  ///< what to do with it: "open it in https://ui.perfetto.dev"
  std::uint64_t tasks = 0, dependencies = 0, critical_tasks = 0;
  Ns traced = 0, replayed = 0;
};

/// Fails when the step or the format does not exist (kUsage), or when the step cannot be simulated or changed
/// (kDeclined).
Result<Exported> export_step(const trace::Trace& trace, const trace::Steps& steps, const ExportOptions& options = {});

/// The graph inside a file that export_step wrote. Declined when the file holds none.
Result<graph::Graph> read_back(const std::string& path, const trace::LoadOptions& options = {});

// export of a whole job: one file in which every rank is a pair of processes (measured on aligned clocks, simulated), with
// the transfers between them, arrows from the last rank to arrive to those that waited, and the critical path across ranks.

/// Fails as analyse_ranks does, and with kUsage for formats that hold one rank only.
Result<Exported> export_ranks(const ranks::Job& job, const ExportOptions& options = {}, unsigned threads = 0);

// page: everything foretrace can say of one step, in one HTML file that needs nothing else: no server, no network.
//
//   FORETRACE_TRY(const Page page, make_page(trace, {.whatifs = {"amp"}, .command = "foretrace report …"}));
//   page.html;
//
// What the other verbs answer stands in it as their own JSON; the tasks of both timelines as packed, compressed columns. Names
// from the trace are data in it: the page only ever shows them as text.

struct PageOptions {
  std::optional<std::int64_t> step;  ///< the number in ProfilerStep#N; default the median step
  host::UserMeasurements told = {};
  std::vector<std::string> whatifs = {};  ///< shown beside what `advise` finds, and stacked as the predicted timeline
  std::string fabric = {};                ///< of the scaling curve; empty: what the GPU is usually sold with
  std::string command = {};               ///< that made the page
  std::string ranks_json = {};            ///< what `ranks` says, where the traces are a job's
  std::string compare_json = {};          ///< what `compare` says, where there is something to compare with
  std::vector<hardware::ListedPrice> price_list = {};  ///< of other GPUs; wins over the device files'
  unsigned threads = 0;
};

struct Page {
  std::string html;
  std::string answer;  ///< its first sentence
  std::size_t tasks = 0;
};

/// Graphs of more tasks are not searched: the changes asked for, or a few common ones, are predicted instead.
inline constexpr std::size_t kMostSearched = 60'000;

/// Fails when the step or a what-if does not exist (kUsage), or nothing can be said of the step (kDeclined).
Result<Page> make_page(const trace::Trace& trace, const PageOptions& options);

}  // namespace foretrace::report
