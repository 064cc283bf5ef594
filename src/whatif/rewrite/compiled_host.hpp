#pragma once
// What a compiled step costs the CPU: guards and arguments for each call, and a launch from generated Python for every kernel,
// in place of modules, dispatch and autograd.

#include "whatif/rewrite/compiled_calls.hpp"

namespace foretrace::whatif {

/// The CPU's time of what is compiled becomes that of its compiled passes; the loss, the update and regions that are not
/// compiled keep theirs. `graphed`: each pass is one CUDA graph, launched once.
void compile_host(Compiling& compiling, const FusionPlan& plan, bool graphed);

}  // namespace foretrace::whatif
