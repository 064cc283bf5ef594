#pragma once
// export of a whole job: one file in which every rank is a pair of processes (measured on aligned clocks, simulated), with
// the transfers between them, arrows from the last rank to arrive to those that waited, and the critical path across ranks.

#include "foretrace/base/result.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/report/ranks.hpp"

namespace foretrace::report {

/// Fails as analyse_ranks does, and with kUsage for formats that hold one rank only.
Result<Exported> export_ranks(const ranks::Job& job, const ExportOptions& options = {}, unsigned threads = 0);

}  // namespace foretrace::report
