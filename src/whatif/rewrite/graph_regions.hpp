#pragma once
// CUDA graphs of some modules, as torch.cuda.make_graphed_callables makes them: a module's forward is one graph and its backward
// another. In each pass the CPU calls an autograd function, copies what comes in (inputs, gradients of results) into the memory that the
// graph reads, and launches it; the parameters' gradients are accumulated as before.

#include <string>
#include <vector>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// From the begin of a graph's launch call to its first kernel. No trace shows: the profiler makes a launch of a thousand nodes last
/// milliseconds, and what seven steps with a graph took without it differs from the span of their graphs by -0.5 to +0.4 ms, so that
/// a tenth of a millisecond cannot be distinguished from none. The call of a graph without nodes and an ordinary launch's latency are taken.
Ns graph_latency(const Model& model, Phase phase);

/// CPU time of a launch of a graph of so many nodes.
Ns graph_launch_time(const Model& model, std::size_t nodes, Phase phase);

/// Plays the modules that the globs choose from graphs.
Status graph_regions(Model& model, Draft& draft, const std::vector<std::string>& layers);

}  // namespace foretrace::whatif
