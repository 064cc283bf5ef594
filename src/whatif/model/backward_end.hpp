#pragma once
// Where the backward pass ends, and what follows it.

#include <set>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// Places on the main thread where it waits for another thread: a backward pass is over. Waits for the GPU are others, also those
/// that what-ifs put there.
std::set<std::uint32_t> backward_ends(const Graph& graph);
/// The last of them; kNone when there is none.
std::uint32_t end_of_backward(const Graph& graph);

/// On each lane, the first task that cannot start before `task` has ended: it waits for it, through whatever is between. The
/// lane's end when there is none. What is put in front of these never waits for what it holds up.
std::vector<std::uint32_t> first_behind(const Graph& graph, std::uint32_t task);

}  // namespace foretrace::whatif
