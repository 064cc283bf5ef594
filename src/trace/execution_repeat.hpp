#pragma once
// Applies an execution trace of one step to the other steps.

#include <cstdint>
#include <map>
#include <vector>

#include "trace/execution_trace.hpp"

namespace foretrace::trace {

/// Operations by event, in the order of the file.
using ObservedOperations = std::map<std::uint32_t, TensorIdentities::Operation>;

/// Observing operations doubles what they cost the CPU, so `foretrace.record` observes a step of its own behind those it traces. Where
/// a thread did the same operations in the same order before or after the stretch that was observed, they take its tensors: the
/// numbers are not theirs, but what each tensor comes from and goes to is the same.
void repeat_over_steps(const Trace& trace, ObservedOperations& operations);

}  // namespace foretrace::trace
