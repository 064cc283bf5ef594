#include "operation_range.hpp"

#include <algorithm>
#include <charconv>

namespace foretrace::inject {
namespace {

std::optional<std::int64_t> number_behind(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + key.size());
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

/// "[[10], []]" up to the bracket that closes it; empty when that is no array of arrays of whole numbers: anyone may write
/// anything into a name, and what is returned goes into a JSON file as it is.
std::string_view array_behind(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + key.size());
  int depth = 0;
  char before = 0;  // the last character that is no space
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool digit = c >= '0' && c <= '9', after_digit = before >= '0' && before <= '9';
    const bool opens = before == '[' || before == ',';  // a value may stand here
    const bool number_goes_on = after_digit && i > 0 && text[i - 1] == before;
    bool fits = false;
    if (c == ' ') {
      continue;
    } else if (c == '[') {
      fits = (before == 0 || opens) && ++depth <= 3;
    } else if (c == ']') {
      fits = (before == '[' || before == ']' || after_digit) && --depth >= 0;
    } else if (c == ',') {
      fits = (before == ']' || after_digit) && depth > 0;
    } else if (c == '-') {
      fits = opens;
    } else if (digit) {
      fits = opens || before == '-' || number_goes_on;
    }
    if (!fits) return {};
    if (depth == 0) return text.substr(0, i + 1);
    before = c;
  }
  return {};
}

}  // namespace

std::optional<OperationRange> operation_range(std::string_view text) {
  constexpr std::string_view kSequence = ", seq = ", kSizes = ", sizes = ", kId = ", op_id = ";
  const std::size_t end = std::min({text.find(kSequence), text.find(kSizes), text.find(kId)});
  if (end == std::string_view::npos || end == 0) return std::nullopt;
  OperationRange out;
  out.name = text.substr(0, end);
  out.sequence = number_behind(text, kSequence);
  out.sizes = array_behind(text, kSizes);
  return out;
}

}  // namespace foretrace::inject
