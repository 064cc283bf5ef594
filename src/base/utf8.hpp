#pragma once
// Texts as UTF-8: what is valid, and writing a code point.

#include <cstdint>
#include <string>
#include <string_view>

namespace foretrace {

/// Length of the valid sequence at text[i], 0 when there is none.
std::size_t utf8_sequence(std::string_view text, std::size_t i);

bool is_utf8(std::string_view text);

/// Appends a code point; nothing happens, and false comes back, for what is none (surrogates, beyond U+10FFFF).
bool append_utf8(std::string& out, std::uint32_t code);

}  // namespace foretrace
