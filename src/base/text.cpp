#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foretrace {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";

// Not those of <cctype>, which follow the locale.
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_letter_or_digit(char c) { return is_upper(c) || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

}  // namespace

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(trimmed(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return contains(text, part); });
}

bool is_one_of(std::string_view word, std::string_view words) {
  for (std::size_t at = words.find(word); at != std::string_view::npos && !word.empty();
       at = words.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ')) return true;
  }
  return false;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (is_upper(c)) c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string name_key(std::string_view name, std::initializer_list<std::string_view> makers) {
  std::string key = lower(name);
  std::erase_if(key, [](char c) { return !is_letter_or_digit(c); });
  for (const std::string_view maker : makers) {
    if (key.starts_with(maker) && key.size() > maker.size()) key.erase(0, maker.size());
  }
  return key;
}

std::string format_count(std::uint64_t n) {
  std::string digits = fmt::format("{}", n);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

}  // namespace foretrace
