#pragma once
// Memory under autocast: what each operation's results, casts and gradients take once their element types change.

#include "whatif/rewrite/autocast.hpp"

namespace foretrace::whatif {

/// `samples`: of a pass, relative to the trace.
void autocast_memory(memory::Curve& curve, const Dataflow& flow, const Autocast& cast, double samples);

}  // namespace foretrace::whatif
