#pragma once
// Small operations on JSON text that the importers share: finding the end of a value, undoing escapes, cleaning bytes.

#include <cstddef>
#include <string>
#include <string_view>

namespace foretrace::trace {

constexpr bool is_json_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/// The first position at or after `at` that is not white space.
std::size_t skip_space(std::string_view text, std::size_t at);

inline constexpr std::size_t kIncomplete = static_cast<std::size_t>(-1);
/// The position just behind the JSON value that starts at `at` (string-aware, brackets balanced, not validated);
/// kIncomplete when the text ends before the value does.
std::size_t skip_value(std::string_view text, std::size_t at);

/// Whether brackets are nested deeper than simdjson reads (1,024). The text may end anywhere.
bool nested_too_deep(std::string_view text);

/// The text of a JSON string without its quotes, escapes undone. Broken escapes are kept as they are written and set
/// `*broken`.
std::string unescape(std::string_view raw, bool* broken = nullptr);

/// A text as a JSON string, in quotes: invalid UTF-8 is replaced, quotes and control characters are escaped.
std::string quoted_json(std::string_view text);

/// Bytes that are not UTF-8 replaced by U+FFFD; `*replaced` counts them.
std::string make_valid_utf8(std::string_view bytes, std::size_t* replaced = nullptr);

}  // namespace foretrace::trace
