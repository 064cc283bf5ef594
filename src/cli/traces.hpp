#pragma once
// From the arguments of a verb to traces: files, folders and standard input, with messages that help when there is none.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/verb.hpp"
#include "foretrace/base/result.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::cli {

/// The trace files behind the arguments, by rank. A path that does not exist is an error that names a similar file.
Result<std::vector<std::string>> locate_traces(const std::vector<std::string>& arguments,
                                               const trace::LoadOptions& options);

/// Of several files the one of rank `--rank`, else of the lowest rank; says on stderr which was taken.
Result<trace::Trace> load_one(const std::vector<std::string>& arguments, const Request& request);

/// All recordings of one side of a comparison. Of a job's ranks one is taken, `rank` or the lowest: they are not recordings of the
/// same thing. `side` names it in messages: "BEFORE".
Result<std::vector<trace::Trace>> load_recordings(const std::vector<std::string>& named, const Request& request,
                                                  const char* side, std::optional<std::int64_t> rank);
std::vector<const trace::Trace*> pointers(const std::vector<trace::Trace>& traces);

}  // namespace foretrace::cli
