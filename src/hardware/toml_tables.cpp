#define TOML_EXCEPTIONS 0
#define TOML_ASSERT(condition) \
  static_cast<void>(0)  // a damaged file is an error, also where assertions are compiled in
#include "hardware/toml_tables.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

namespace foretrace::hardware {

namespace {

void fill(TomlTable& out, const toml::table& table) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (const toml::table* inner = node.as_table()) {
      fill(out.tables[name].emplace_back(), *inner);
    } else if (const toml::array* list = node.as_array()) {
      for (const toml::node& item : *list) {
        if (const toml::table* inner_item = item.as_table()) fill(out.tables[name].emplace_back(), *inner_item);
        if (const auto text = item.value<std::string>()) out.lists[name].push_back(*text);
      }
    } else if (node.is_boolean()) {
      out.values[name] = node.as_boolean()->get();
    } else if (const auto number = node.value<double>()) {
      out.values[name] = *number;
    } else if (const auto text = node.value<std::string>()) {
      out.values[name] = *text;
    }
  }
}

// What no TOML file may hold: control characters, and anything but ASCII outside strings and comments. toml++ stops the
// program at some of them, or reads past its tables. A quote begins a string only where a key or a value may begin.
bool has_forbidden_characters(std::string_view text) {
  char inside = 0;  // the quote of the string we are in; '#' in a comment
  char before = 0;  // the last that was no blank, of what lies outside in this line
  bool escaped = false;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if ((u < 0x20 && c != '\t' && c != '\n' && c != '\r') || u == 0x7F) return true;
    if (c == '\n') {
      inside = before = 0;
      escaped = false;
    } else if (inside != 0) {
      if (!escaped && c == inside && inside != '#') inside = 0;
      escaped = inside == '"' && c == '\\' && !escaped;
    } else {
      if (u >= 0x80) return true;
      const bool begins = before == 0 || std::string_view("=[,.{").find(before) != std::string_view::npos;
      if (c == '#' || ((c == '"' || c == '\'') && begins)) inside = c;
      if (c != ' ' && c != '\t' && c != '\r') before = c;
    }
  }
  return false;
}

}  // namespace

std::optional<double> TomlTable::number(std::string_view key) const {
  const auto at = values.find(key);
  if (at == values.end() || !std::holds_alternative<double>(at->second)) return std::nullopt;
  return std::get<double>(at->second);
}

std::optional<std::string> TomlTable::text(std::string_view key) const {
  const auto at = values.find(key);
  if (at == values.end() || !std::holds_alternative<std::string>(at->second)) return std::nullopt;
  return std::get<std::string>(at->second);
}

bool TomlTable::flag(std::string_view key) const {
  const auto at = values.find(key);
  return at != values.end() && std::holds_alternative<bool>(at->second) && std::get<bool>(at->second);
}

const TomlTable& TomlTable::table(std::string_view name) const {
  static const TomlTable kNone;
  const auto at = tables.find(name);
  return at == tables.end() ? kNone : at->second.front();
}

Result<TomlTable> parse_toml(std::string_view text, const std::string& origin, const std::string& hint) {
  if (has_forbidden_characters(text)) {
    return tl::unexpected<Error>(
        Error{ErrorCode::kUnreadable, "characters no TOML file may hold", origin, Error::kNoOffset, hint});
  }
  const toml::parse_result parsed = toml::parse(text, origin);
  if (!parsed) {
    const toml::parse_error& e = parsed.error();
    return tl::unexpected<Error>(Error{ErrorCode::kUnreadable,
                                       fmt::format("line {}: {}", e.source().begin.line, std::string(e.description())),
                                       origin, Error::kNoOffset, hint});
  }
  TomlTable out;
  fill(out, parsed.table());
  return out;
}

}  // namespace foretrace::hardware
