#pragma once
// How a report is printed as text. The library never looks at the terminal: the caller says.

#include <cstddef>

namespace foretrace::report {

struct TextStyle {
  std::size_t width = 100;  ///< columns of the terminal; long names are shortened in the middle to fit
  bool utf8 = true;         ///< false: marks and bars in plain ASCII
  std::size_t top = 10;     ///< rows shown of each long table; the rest is summed up in one line
};

}  // namespace foretrace::report
