#pragma once
// The tasks of timelines as the page reads them: a JSON head, then columns of variable-length integers, gzipped and in base64.
//
//   u32 length of the head, little endian | head (JSON) | columns, one behind the other
//
// The head names lanes and strings and says how long each column is. Per task, in the order of the graph (lane by lane):
//   start   zigzag: ns after the end of the task before it on its lane (of the step's begin for the first)
//   length  ns
//   name, layer, op   places in the list of names (0: none)
//   kind    what it is | phase << 4 | on the critical path << 7
//   why     kind of dependency it waited for last
//   cause   zigzag: distance to the task it waited for; 0: none
//   event   zigzag distance to the event before: what ties a predicted task to a measured one
// Shown only when a task is selected (the page reads these columns then):
//   shapes, launch   places in the list of details (0: none): what its operation works on, how the kernel was launched
//   waits   how many tasks it waits for on other lanes; for each of them, in a row:
//   waits_for   zigzag: distance to that task
//   waits_why   kind of dependency

#include <string>

#include "foretrace/analysis/replay.hpp"
#include "foretrace/base/result.hpp"
#include "foretrace/overview/overview.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::report {

struct PackedTimeline {
  std::string title;
  const analysis::ReplayedStep* step = nullptr;
  bool measured = false;  ///< times as the trace has them, instead of the simulation's
};

/// `job`: all ranks, as one more timeline behind the others, and as another where changes are predicted; the head says how many of them
/// there are (`job`), and their lanes have a `rank`.
Result<std::string> pack_timelines(const trace::Trace& trace, const std::vector<PackedTimeline>& timelines,
                                   const overview::JobOverview* job = nullptr);

}  // namespace foretrace::report
