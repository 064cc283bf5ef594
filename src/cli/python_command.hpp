#pragma once
// Commands that need Python. build/foretrace does not link Python, so it starts the Python command for them.

#include <string>
#include <vector>

#include "foretrace/base/result.hpp"

namespace foretrace::cli {

/// Whether the arguments hold a verb (calibrate, record) or an option (--plugin, --ray) that needs Python.
bool needs_python(const std::vector<std::string>& args);

/// Becomes `python3 -m foretrace ARGS…`. Comes back only when that cannot be, with how to install it.
Error hand_to_python(const std::vector<std::string>& args);

}  // namespace foretrace::cli
