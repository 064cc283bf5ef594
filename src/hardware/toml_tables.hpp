#pragma once
// TOML as plain tables of numbers, texts and flags: as much of it as files of figures need. Comments, names with and without
// quotes, [tables], [[several of them]], tables in braces, texts on one line, numbers, true and false, lists. Dates, texts over
// several lines, inf and nan are refused. Any bytes may come in: what is no such file is an error with its line.

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
  std::map<std::string, std::vector<std::string>, std::less<>> lists;  ///< of texts
  std::map<std::string, std::vector<TomlTable>, std::less<>> tables;   ///< [[name]] several, [name] one

  [[nodiscard]] std::optional<double> number(std::string_view key) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;
  [[nodiscard]] bool flag(std::string_view key) const;
  /// [name], or an empty table where the file has none.
  [[nodiscard]] const TomlTable& table(std::string_view name) const;
};

/// Far more than a page of figures needs.
inline constexpr std::size_t kLargestToml = std::size_t{1} << 20;

/// `origin` names the text in errors; `hint` says where the form is described.
Result<TomlTable> parse_toml(std::string_view text, const std::string& origin, const std::string& hint);

}  // namespace foretrace::hardware
