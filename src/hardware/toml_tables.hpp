#pragma once
// TOML as plain tables of numbers, texts and flags, so that the header-heavy parser is compiled in one place.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "foretrace/base/result.hpp"

namespace foretrace::hardware {

struct TomlTable {
  std::map<std::string, std::variant<double, std::string, bool>, std::less<>> values;
  std::map<std::string, std::vector<TomlTable>, std::less<>> tables;  ///< [[name]] several, [name] one

  [[nodiscard]] std::optional<double> number(std::string_view key) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;
  [[nodiscard]] bool flag(std::string_view key) const;
};

/// What no TOML file may hold: control characters, and anything but ASCII outside quotes and comments. toml++ stops the
/// program at some of them, or reads past its tables.
bool has_forbidden_characters(std::string_view text);

/// `origin` names the text in errors; `hint` says where the form is described.
Result<TomlTable> parse_toml(std::string_view text, const std::string& origin, const std::string& hint);

}  // namespace foretrace::hardware
