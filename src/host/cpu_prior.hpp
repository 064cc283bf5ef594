#pragma once
// The prior on CPU times, before the step without the profiler is estimated.

#include <optional>

#include "foretrace/graph/graph.hpp"
#include "foretrace/host/unprofiled.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::host {

/// A host's file where the user gives one; the times of phases that the recorder took with and without the profiler, where they
/// are the CPU's own; the typical host for the rest.
CpuPrior cpu_prior(const trace::Trace& trace, const graph::Graph& graph, const std::optional<HostCosts>& host);

}  // namespace foretrace::host
