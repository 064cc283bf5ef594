#pragma once
// Where backward is over, and what comes behind that.

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// The last place on the main thread where it waits for another thread: backward is over. kNone when there is none. Waits for
/// the GPU are others, also those that what-ifs put there.
std::uint32_t end_of_backward(const Graph& graph);

/// On each lane, the first task that cannot start before `task` has ended: it waits for it, through whatever lies between. The
/// lane's end when there is none. What is put in front of these never waits for what it holds up.
std::vector<std::uint32_t> first_behind(const Graph& graph, std::uint32_t task);

}  // namespace foretrace::whatif
