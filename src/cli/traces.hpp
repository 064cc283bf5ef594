#pragma once
// From the arguments of a verb to traces: files, folders and standard input, with messages that help when there is none.

#include <string>
#include <vector>

#include "cli/verb.hpp"
#include "foretrace/base/result.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::cli {

/// The trace files behind the arguments, by rank. A path that does not exist is an error that names a similar file.
Result<std::vector<std::string>> locate_traces(const std::vector<std::string>& arguments);

/// Of several files the one of rank `--rank`, else of the lowest rank; says on stderr which was taken.
Result<trace::Trace> load_one(const std::vector<std::string>& arguments, const Request& request);

}  // namespace foretrace::cli
