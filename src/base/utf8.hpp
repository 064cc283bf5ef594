#pragma once
// Texts as UTF-8: reading, checking and writing code points.

#include <cstdint>
#include <string>
#include <string_view>

namespace foretrace {

struct CodePoint {
  char32_t value = 0xFFFD;
  std::size_t length = 1;  ///< bytes taken; of an invalid sequence, the part that cannot start a valid one
  bool valid = false;
};
/// The code point at byte `at` (< text.size()). Overlong forms, surrogates and values over U+10FFFF are invalid.
CodePoint decode_utf8(std::string_view text, std::size_t at);

/// Length of the valid sequence at text[i], 0 when there is none.
std::size_t utf8_sequence(std::string_view text, std::size_t i);

bool is_utf8(std::string_view text);
bool is_ascii(std::string_view text);

/// Appends a code point; nothing happens, and false comes back, for what is none (surrogates, beyond U+10FFFF).
bool append_utf8(std::string& out, std::uint32_t code);

}  // namespace foretrace
