#pragma once
// export of a whole job: one file in which every rank is a pair of processes (measured on aligned clocks, simulated), with
// the transfers between them, arrows from the last rank to arrive to those that waited, and the critical path across ranks.

#include "foretrace/analysis/ranks.hpp"
#include "foretrace/base/result.hpp"
#include "foretrace/report/export.hpp"

namespace foretrace::report {

/// Fails with kUsage for formats that hold one rank only.
Result<Exported> export_ranks(const ranks::Job& job, const analysis::RanksStep& step,
                              const ExportOptions& options = {});

}  // namespace foretrace::report
