#pragma once
// Who reads the traces of many ranks: this process, unless somebody else offers (`--ray`: the Python command does, with a
// cluster behind it).

#include <functional>
#include <string>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/trace/load.hpp"

namespace foretrace::cli {

/// One trace or error per file, as trace::load would give them.
using ReadAll = std::function<std::vector<Result<trace::Trace>>(const std::vector<std::string>& files,
                                                                const trace::LoadOptions& options)>;

/// Empty: this process. Set before cli::run by whoever embeds it.
ReadAll& other_reader();

}  // namespace foretrace::cli
