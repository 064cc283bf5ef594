#pragma once
// Who makes the what-ifs of a plugin known (`--plugin FILE`): nobody, unless somebody offers. The Python command does, for
// files of Python.

#include <functional>
#include <string>

#include "foretrace/base/result.hpp"

namespace foretrace::cli {

/// Adds the what-ifs of a file to those the library knows (whatif::add_whatif), or says what is wrong with it and where.
using LoadPlugin = std::function<Status(const std::string& file)>;

/// Empty: plugins are refused. Set before cli::run by whoever embeds it.
LoadPlugin& plugin_loader();

}  // namespace foretrace::cli
