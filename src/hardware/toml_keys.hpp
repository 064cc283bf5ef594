#pragma once
// The keys that a kind of file may have. Without this check, a misspelt key or a value of the wrong type would silently mean the default.

#include <string>
#include <string_view>
#include <vector>

#include "hardware/toml_tables.hpp"

namespace foretrace::hardware {

/// kNumber, kText and kFlag are the types of TomlTable::values, in its order.
enum class TomlType : std::uint8_t { kNumber, kText, kFlag, kTexts, kTable };

struct TomlKey {
  std::string_view name;
  TomlType type = TomlType::kNumber;
};

struct TomlForm {
  std::string file;    ///< what such files are called: "a device file"
  std::string origin;  ///< this one, for errors
  std::string hint;    ///< where the form is described
};

/// `where` stands before the key in errors: "compute.", "level 2: ".
Status only_known(const TomlTable& table, const std::vector<TomlKey>& known, const std::string& where,
                  const TomlForm& form);

}  // namespace foretrace::hardware
