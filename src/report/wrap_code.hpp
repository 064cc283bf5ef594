#pragma once
// Code that is shown in a narrow terminal.

#include <cstddef>
#include <string>
#include <string_view>

namespace foretrace::report {

/// One line of Python broken at spaces so that it stays valid Python: inside brackets as it is, elsewhere with a backslash, and
/// a comment goes on as a comment. Text in quotes is never broken. Every line but the first starts with `indent` spaces, which
/// are taken on the first line too.
std::string wrap_code(std::string_view code, std::size_t width, std::size_t indent);

}  // namespace foretrace::report
