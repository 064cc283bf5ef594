#include "trace/importers/json_text.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

#include "base/utf8.hpp"

namespace foretrace::trace {

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size() && is_json_space(text[at])) ++at;
  return at;
}

namespace {

std::size_t skip_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return kIncomplete;
}

std::optional<std::uint32_t> hex4(std::string_view text, std::size_t at) {
  if (at + 4 > text.size()) return std::nullopt;
  std::uint32_t value = 0;
  for (std::size_t i = at; i < at + 4; ++i) {
    const char c = text[i];
    std::uint32_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<std::uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<std::uint32_t>(c - 'a' + 10);
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<std::uint32_t>(c - 'A' + 10);
    } else {
      return std::nullopt;
    }
    value = value * 16 + digit;
  }
  return value;
}

// Reads \uXXXX (and a second one for a surrogate pair) at raw[i] == '\\'; the number of characters used, 0 when broken.
std::size_t unescape_unicode(std::string_view raw, std::size_t i, std::string& out) {
  const auto first = hex4(raw, i + 2);
  if (!first) return 0;
  std::uint32_t code = *first;
  std::size_t used = 6;
  if (code >= 0xD800 && code < 0xDC00) {
    if (i + 7 >= raw.size() || raw[i + 6] != '\\' || raw[i + 7] != 'u') return 0;
    const auto second = hex4(raw, i + 8);
    if (!second || *second < 0xDC00 || *second > 0xDFFF) return 0;
    code = 0x10000 + ((code - 0xD800) << 10) + (*second - 0xDC00);
    used = 12;
  } else if (code >= 0xDC00 && code < 0xE000) {
    return 0;
  }
  append_utf8(out, code);
  return used;
}

}  // namespace

bool nested_too_deep(std::string_view text) {
  constexpr std::int64_t kDeepest = 1024;
  std::int64_t depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
      if (at == kIncomplete) return false;
      --at;
    } else if (c == '{' || c == '[') {
      if (++depth > kDeepest) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

std::size_t skip_value(std::string_view text, std::size_t at) {
  if (at >= text.size()) return kIncomplete;
  if (text[at] == '"') return skip_string(text, at);
  if (text[at] != '{' && text[at] != '[') {
    const std::size_t end = text.find_first_of(",}] \n\r\t", at);
    return end == std::string_view::npos ? kIncomplete : end;
  }
  std::size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
      if (at == kIncomplete) return kIncomplete;
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) return at + 1;
    ++at;
  }
  return kIncomplete;
}

std::string unescape(std::string_view raw, bool* broken) {
  std::string out;
  out.reserve(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      out += raw[i];
      continue;
    }
    const char next = i + 1 < raw.size() ? raw[i + 1] : '\0';
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    if (const std::size_t k = kFrom.find(next); next != '\0' && k != std::string_view::npos) {
      out += kTo[k];
      ++i;
    } else if (const std::size_t used = next == 'u' ? unescape_unicode(raw, i, out) : 0; used > 0) {
      i += used - 1;
    } else {
      out += '\\';
      if (broken != nullptr) *broken = true;
    }
  }
  return out;
}

std::string quoted_json(std::string_view text) {
  std::string out = "\"";
  for (const char c : make_valid_utf8(text)) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string make_valid_utf8(std::string_view bytes, std::size_t* replaced) {
  std::string out;
  out.reserve(bytes.size());
  std::size_t bad = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t length = utf8_sequence(bytes, i);
    if (length > 0) {
      out.append(bytes, i, length);
      i += length;
    } else {
      out += "\xEF\xBF\xBD";
      ++bad;
      ++i;
    }
  }
  if (replaced != nullptr) *replaced = bad;
  return out;
}

}  // namespace foretrace::trace
