#pragma once
// The texts of reports, as wide as where Python prints them.

#include "foretrace/report/report.hpp"

namespace foretrace::python {

/// `width` is that of the terminal, or 100 where there is none: only in narrower ones are columns left out.
inline report::TextStyle text_style(std::size_t width, std::size_t top = report::TextStyle{}.top) {
  return {.width = width, .all_columns = width >= report::TextStyle{}.width, .top = top};
}

}  // namespace foretrace::python
