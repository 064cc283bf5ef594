#include "base/decimal.hpp"

#include <charconv>
#include <cmath>

namespace foretrace {

std::optional<std::int64_t> parse_int64(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<double> parse_double(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// value * 10 + digit, refusing overflow.
bool push_digit(std::uint64_t& value, char digit) {
  constexpr std::uint64_t kLimit = static_cast<std::uint64_t>(INT64_MAX);
  const auto d = static_cast<std::uint64_t>(digit - '0');
  if (value > (kLimit - d) / 10) return false;
  value = value * 10 + d;
  return true;
}

}  // namespace

std::optional<Ns> parse_us_as_ns(std::string_view text) {
  std::size_t i = 0;
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) ++i;

  // Digits are collected as one integer; `scale` is the power of ten still to apply to reach nanoseconds.
  std::uint64_t value = 0;
  int scale = 3;
  std::size_t digits = 0;
  for (; i < text.size() && is_digit(text[i]); ++i, ++digits) {
    if (!push_digit(value, text[i])) return std::nullopt;
  }
  // With an exponent, digits below the third decimal can still count; without one they are below a nanosecond.
  const bool has_exponent = text.find_first_of("eE", i) != std::string_view::npos;
  if (i < text.size() && text[i] == '.') {
    for (++i; i < text.size() && is_digit(text[i]); ++i, ++digits) {
      if (scale <= 0 && !has_exponent) continue;
      if (value > static_cast<std::uint64_t>(INT64_MAX) / 10) continue;
      if (!push_digit(value, text[i])) return std::nullopt;
      --scale;
    }
  }
  if (digits == 0) return std::nullopt;
  if (i < text.size()) {
    if (text[i] != 'e' && text[i] != 'E') return std::nullopt;
    ++i;
    if (i < text.size() && text[i] == '+') ++i;
    int exponent = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), exponent);
    if (error != std::errc{} || end != text.data() + text.size() || exponent > 40 || exponent < -400)
      return std::nullopt;
    scale += exponent;
  }
  for (; scale > 0 && value != 0; --scale) {
    if (!push_digit(value, '0')) return std::nullopt;
  }
  for (; scale < 0 && value != 0; ++scale) value /= 10;
  return negative ? -static_cast<Ns>(value) : static_cast<Ns>(value);
}

}  // namespace foretrace
