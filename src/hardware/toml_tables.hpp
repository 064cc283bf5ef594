#pragma once
// The subset of TOML that device and fabric files need: comments, [tables], [[several of one name]], and values that are numbers, texts on
// one line, true, false or lists of texts. Anything else is an error with its line number: dotted names, tables in braces, dates.

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
