#pragma once
// What stands around the events of a Chrome trace.

#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

/// Fills the typed fields (base time, device properties, distributed info) from trace.metadata.
void read_metadata(Trace& trace);

}  // namespace foretrace::trace
