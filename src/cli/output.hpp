#pragma once
// Writing an answer: to standard output, or to a file that is written completely or not at all.

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "foretrace/base/result.hpp"

namespace foretrace::cli {

/// To `path` (through a temporary file next to it and a rename; devices and pipes directly), or to `out` when there is no
/// path or it is "-". A reader that went away (EPIPE) is not an error.
Status write_output(const std::optional<std::string>& path, std::FILE* out, std::string_view text);

}  // namespace foretrace::cli
