#pragma once
// The top-level keys of a Chrome trace other than its events.

#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

/// Fills the typed fields (base time, device properties, distributed info) from trace.metadata.
void read_metadata(Trace& trace);

}  // namespace foretrace::trace
