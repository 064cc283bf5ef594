#pragma once
// A fast path for numbers as traces nearly always write them; base/decimal reads the rest.

#include <cstdint>
#include <string_view>

#include "base/decimal.hpp"

namespace foretrace::trace {

/// Short decimal integers, the common case by far, without the generality of from_chars.
inline bool read_int(std::string_view text, std::int64_t& value) {
  if (text.size() - 1 < 18) {
    const bool negative = text[0] == '-';
    std::int64_t v = 0;
    std::size_t i = negative ? 1 : 0;
    if (i == text.size()) return false;
    for (; i < text.size(); ++i) {
      const unsigned digit = static_cast<unsigned char>(text[i]) - '0';
      if (digit > 9) return false;
      v = v * 10 + digit;
    }
    value = negative ? -v : v;
    return true;
  }
  const auto parsed = parse_int64(text);
  if (parsed) value = *parsed;
  return parsed.has_value();
}

/// Microseconds with up to three decimals, as Kineto prints them; everything else takes the general path.
inline bool read_us(std::string_view text, Ns& ns) {
  if (text.size() >= 5 && text.size() <= 18 && text[text.size() - 4] == '.') {
    std::uint64_t v = 0;  // wraps on text that is no number, which is then discarded
    const std::size_t point = text.size() - 4;
    bool digits = true;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (i == point) continue;
      const unsigned digit = static_cast<unsigned char>(text[i]) - '0';
      digits &= digit <= 9;
      v = v * 10 + digit;
    }
    if (digits) {
      ns = static_cast<Ns>(v);
      return true;
    }
  }
  const auto parsed = parse_us_as_ns(text);
  if (parsed) ns = *parsed;
  return parsed.has_value();
}

}  // namespace foretrace::trace
