#pragma once
// The tasks of all ranks of a job as columns of the page's timeline.

#include <vector>

#include "analysis/ranks_step.hpp"
#include "foretrace/overview/overview.hpp"
#include "ranks/intervals.hpp"
#include "report/page_columns.hpp"

namespace foretrace::report {

/// As traced, on aligned clocks. A collective is two tasks on its stream: the wait for the other ranks, and the transfer.
/// The operation of either is what the collective is there for: "dp all-reduce".
Columns job_columns(const overview::JobOverview& job, Names& names);
/// When the first task of a changed job starts: ranks start at different times, and some before the step that is timed. Its timeline
/// starts here.
Ns origin_of(const overview::ChangedJob& job);
/// The step with changes, as simulated, in the same form.
Columns changed_columns(const overview::ChangedJob& job, Names& names);
/// The bubble of every rank of a pipeline, on the clock of these tasks; empty for other jobs.
std::vector<ranks::Intervals> job_bubbles(const overview::JobOverview& job);

}  // namespace foretrace::report
