#pragma once
// Ranks that share one GPU and synchronise in collectives.

#include "foretrace/whatif/whatif.hpp"
#include "hardware/shared_memory.hpp"

namespace foretrace::whatif {

/// Whether the recorded step has collectives of its own.
bool communicates(const graph::Graph& graph);

/// Processes that do the same on one host differ in what their CPU takes: the slowest of several over the typical one.
double slowest_process(const Model& model, std::int64_t ranks);

/// All parts of a GPU run the same kernels at the same time: those that stream take their part of its memory's bandwidth.
void share_memory(const Model& model, Draft& draft, const hardware::Parts& parts);

/// The trace is of a rank on a part of a GPU, next to ranks that ran independently. With this change they synchronise: all of them run the same
/// kernels at the same time, and those that stream share the memory's bandwidth. Their processes share a host: all `ranks` wait for the
/// slowest. Nothing changes on a whole GPU, where the trace's ranks synchronised already, and where an earlier change made them do so.
void run_in_step(const Model& model, Draft& draft, int ranks);

}  // namespace foretrace::whatif
