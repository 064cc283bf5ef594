#pragma once
// The version of the library: semantic, and one for the program, the library and the Python module. CMake and the wheel read it
// here.
//
//   static_assert(FORETRACE_VERSION_NUMBER >= 300);      // 0.3.0 or later

#define FORETRACE_VERSION "0.3.0"
#define FORETRACE_VERSION_MAJOR 0
#define FORETRACE_VERSION_MINOR 3
#define FORETRACE_VERSION_PATCH 0
/// Comparable: 10000 * major + 100 * minor + patch.
#define FORETRACE_VERSION_NUMBER \
  (FORETRACE_VERSION_MAJOR * 10000 + FORETRACE_VERSION_MINOR * 100 + FORETRACE_VERSION_PATCH)

namespace foretrace {

/// Of the library that is linked; the macros are those of the headers.
const char* version();

}  // namespace foretrace
