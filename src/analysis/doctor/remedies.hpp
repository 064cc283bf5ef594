#pragma once
// How to record what a trace lacks, with the profiler it was recorded with: a flag of nsys, a line of JAX. The checks
// themselves speak of PyTorch's profiler.

#include <vector>

#include "foretrace/analysis/doctor.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::analysis {

/// Gives each finding the remedy for the format of the trace.
void name_remedies(const trace::Trace& trace, std::vector<Finding>& findings);

}  // namespace foretrace::analysis
