#pragma once
// What readers of options and of small text files share: trimming, lists, names without regard to case; numbers as people
// read them.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace foretrace {

/// Without white space at either end.
std::string_view trimmed(std::string_view text);

/// The parts between separators, each trimmed; empty parts stay. The parts point into `text`.
///   split("a, b,,c", ',') -> "a", "b", "", "c"
std::vector<std::string_view> split(std::string_view text, char separator);

bool contains(std::string_view text, std::string_view part);
bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts);
/// Whether a word is one of those in `words`, which stand between blanks: is_one_of("copy", "bitcast copy convert").
bool is_one_of(std::string_view word, std::string_view words);

/// ASCII letters in lower case.
std::string lower(std::string_view text);

/// What is left of a name when only letters and digits count, in lower case, without the makers' names in front:
/// "NVIDIA H200", "nvidia-h200" and "H200" are the same question. A name that is nothing but a maker's stays.
std::string name_key(std::string_view name, std::initializer_list<std::string_view> makers);

std::string format_count(std::uint64_t n);  ///< 1234567 -> "1,234,567"

}  // namespace foretrace
