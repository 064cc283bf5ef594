#pragma once
// The error for a missing path, with the name that was probably meant.

#include <string>

#include "foretrace/base/result.hpp"

namespace foretrace {

/// "no such file or folder", and as a hint a similar name in the same folder, or how much of the path exists.
Error missing_file(const std::string& path);

}  // namespace foretrace
