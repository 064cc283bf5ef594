#include "foretrace/base/result.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace foretrace {

std::string Error::to_string() const {
  std::string text;
  if (!file.empty()) text += file + ": ";
  if (offset != kNoOffset) text += fmt::format("byte {}: ", offset);
  text += message;
  if (!hint.empty()) text += "\n  hint: " + hint;
  return text;
}

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "foretrace: internal error: %s at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace foretrace
