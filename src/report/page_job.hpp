#pragma once
// The tasks of all ranks of a job as columns of the page's timeline.

#include "analysis/ranks_step.hpp"
#include "foretrace/overview/overview.hpp"
#include "report/page_columns.hpp"

namespace foretrace::report {

/// As traced, on aligned clocks. A collective is two tasks on its stream: the wait for the other ranks, and the transfer.
Columns job_columns(const overview::JobOverview& job, Names& names);

}  // namespace foretrace::report
