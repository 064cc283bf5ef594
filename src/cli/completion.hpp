#pragma once
// Completion scripts for shells, written from the verbs' descriptions.

#include <string>
#include <string_view>

namespace foretrace::cli {

/// For "bash", "zsh" or "fish"; empty for any other shell.
std::string completion_script(std::string_view shell);

}  // namespace foretrace::cli
