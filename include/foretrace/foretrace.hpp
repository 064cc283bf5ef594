#pragma once
// The whole library in one include. From a trace file to a prediction:
//
//   FORETRACE_TRY(const trace::Trace loaded, trace::load("trace.json.gz"));
//   FORETRACE_TRY(const analysis::Baseline today, analysis::make_baseline(loaded, {}, {}));      // today's step
//   FORETRACE_TRY(const whatif::Use amp, whatif::parse_use("amp:dtype=bf16"));
//   const whatif::Prediction after = analysis::predict(today, {amp});      // the step with the change
//   to_ms(after.step);  to_ms(after.low);  to_ms(after.high);
//
// Times are nanoseconds (Ns). Functions that can fail on their input return Result<T>. No exception leaves the library,
// and nothing in it prints, exits or reads the environment. Headers are grouped as the namespaces are: trace (events), graph (one step as
// tasks), simulate, hardware, whatif (changes), analysis (questions about one step), search, compare, ranks (jobs), report.

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/analysis/doctor.hpp"
#include "foretrace/analysis/gpus.hpp"
#include "foretrace/analysis/ranks.hpp"
#include "foretrace/analysis/replay.hpp"
#include "foretrace/analysis/summary.hpp"
#include "foretrace/base/result.hpp"
#include "foretrace/base/types.hpp"
#include "foretrace/cli/run.hpp"
#include "foretrace/compare/compare.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/host/measured_step.hpp"
#include "foretrace/host/unprofiled.hpp"
#include "foretrace/memory/memory.hpp"
#include "foretrace/overview/overview.hpp"
#include "foretrace/ranks/job.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/search/optimize.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"
#include "foretrace/version.hpp"
#include "foretrace/whatif/draft.hpp"
#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "foretrace/work/work.hpp"
