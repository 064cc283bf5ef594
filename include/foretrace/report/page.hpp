#pragma once
// page: an overview of one step as one HTML file that needs nothing else: no server, no network.
//
//   FORETRACE_TRY(const overview::Overview all, overview::make_overview(trace, {.whatifs = {"amp"}}));
//   FORETRACE_TRY(const Page page, make_page(all, {.command = "foretrace report …"}));
//   page.html;
//
// The page holds the JSON of the other verbs, and the tasks of both timelines as packed, compressed columns. Names from the trace
// are data in it: the page only ever shows them as text.

#include <string>

#include "foretrace/base/result.hpp"
#include "foretrace/overview/overview.hpp"

namespace foretrace::report {

struct PageOptions {
  std::string command = {};       ///< the command that made the page
  std::string ranks_json = {};    ///< the JSON of `ranks`, when the traces are those of a job
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
