#pragma once
// page: everything foretrace can say of one step, in one HTML file that needs nothing else: no server, no network.
//
//   FORETRACE_TRY(const Page page, make_page(trace, {.whatifs = {"amp"}, .command = "foretrace report …"}));
//   page.html;
//
// What the other verbs answer stands in it as their own JSON; the tasks of both timelines as packed, compressed columns. Names
// from the trace are data in it: the page only ever shows them as text.

#include <optional>
#include <string>
#include <vector>

#include "foretrace/analysis/gpus.hpp"
#include "foretrace/base/result.hpp"
#include "foretrace/host/measured_step.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::report {

struct PageOptions {
  std::optional<std::int64_t> step;  ///< the number in ProfilerStep#N; default the median step
  host::UserMeasurements measurements = {};
  std::vector<std::string> whatifs = {};  ///< shown beside what `advise` finds, and stacked as the predicted timeline
  std::string fabric = {};                ///< of the scaling curve; empty: what the GPU is usually sold with
  std::string command = {};               ///< that made the page
  std::string ranks_json = {};            ///< what `ranks` says, where the traces are a job's
  std::string compare_json = {};          ///< what `compare` says, where there is something to compare with
  std::vector<analysis::ListedPrice> price_list = {};  ///< of other GPUs; wins over the device files'
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
