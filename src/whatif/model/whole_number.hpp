#pragma once
// Checks parameters that are counts.

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "base/decimal.hpp"
#include "foretrace/base/result.hpp"

namespace foretrace::whatif {

/// For Parameter::check: a whole number, at most `Most`.
template <long Most = 1'000'000>
Status whole_number(const std::string& value) {
  const double number = parse_double(value).value_or(0.5);
  if (number == std::floor(number) && number <= static_cast<double>(Most)) return {};
  return fail(ErrorCode::kUsage, fmt::format("'{}' is not a whole number{}", value,
                                             number > static_cast<double>(Most) ? fmt::format(" up to {}", Most) : ""));
}

}  // namespace foretrace::whatif
