#pragma once
// The work of an operation of a compiled program, as its compiler's own description of it gives it.

#include "foretrace/work/work.hpp"
#include "trace/compiled_op.hpp"

namespace foretrace::work {

Work describe_compiled(const trace::CompiledOp& op);

}  // namespace foretrace::work
