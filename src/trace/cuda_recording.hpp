#pragma once
// What the library that records CUDA programs (inject/) reports about its recording, in the metadata of the file.

#include <string_view>

#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

inline constexpr std::string_view kCudaRecordingKey = "foretrace_cuda";

/// Counts the records it dropped among the trace's problems, so that `doctor` shows them. Nothing for other traces.
void note_dropped_records(Trace& trace);

}  // namespace foretrace::trace
