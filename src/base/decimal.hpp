#pragma once
// Numbers from text, all of it or nothing; times exactly, without a detour through floating point.

#include <cstdint>
#include <optional>
#include <string_view>

#include "foretrace/base/types.hpp"

namespace foretrace {

/// A JSON integer ("42", "-7"); nothing for fractions, exponents, blanks or anything out of range.
std::optional<std::int64_t> parse_int64(std::string_view text);

/// A finite decimal number ("0.5", "1e-3"); nothing for blanks, "inf", "nan" or anything behind the number.
std::optional<double> parse_double(std::string_view text);

/// Microseconds in decimal ("4458676983543.183", "1712195495505772.8", "1.7e15") as nanoseconds, exactly. Digits below a
/// nanosecond are cut off. Nothing for text that is not a number ("NaN") or does not fit.
///   parse_us_as_ns("117.690") == 117690
std::optional<Ns> parse_us_as_ns(std::string_view text);

}  // namespace foretrace
