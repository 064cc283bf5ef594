#pragma once

#include "foretrace/whatif/draft.hpp"

namespace foretrace::whatif {

/// The changed graph, proven to be able to run, or why the change cannot be made. Shares of the device that contradict it are
/// let go (graph::verify_or_relax). `works` describes the tasks of the changed graph then.
Result<graph::Graph> checked_commit(const Draft& draft, work::Works& works);

}  // namespace foretrace::whatif
