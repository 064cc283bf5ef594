#include "hardware/toml_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/suggest.hpp"

namespace foretrace::hardware {

Status only_known(const TomlTable& table, const std::vector<TomlKey>& known, const std::string& where,
                  const TomlForm& form) {
  const auto bad = [&](std::string message, const std::string& near = {}) -> Status {
    return tl::unexpected<Error>(Error{ErrorCode::kUnreadable, std::move(message), form.origin, Error::kNoOffset,
                                       near.empty() ? form.hint : near + " " + form.hint});
  };
  const auto check = [&](const std::string& key, TomlType is) -> Status {
    constexpr std::array<std::string_view, 5> kWanted = {"a number", "a text", "true or false", "a list of texts",
                                                         "a table"};
    const auto at = std::find_if(known.begin(), known.end(), [&](const TomlKey& k) { return k.name == key; });
    if (at == known.end()) {
      std::vector<std::string> names;
      for (const TomlKey& k : known) names.emplace_back(k.name);
      return bad(fmt::format("{}'{}' is not a key of {}", where, key, form.file), did_you_mean(key, names));
    }
    if (at->type != is)
      return bad(fmt::format("{}{} is not {}", where, key, kWanted[static_cast<std::size_t>(at->type)]));
    return {};
  };
  for (const auto& [key, value] : table.values) {
    FORETRACE_TRY_VOID(check(key, static_cast<TomlType>(value.index())));
  }
  for (const auto& [key, list] : table.lists) {
    FORETRACE_TRY_VOID(check(key, TomlType::kTexts));
  }
  for (const auto& [key, tables] : table.tables) {
    FORETRACE_TRY_VOID(check(key, TomlType::kTable));
  }
  return {};
}

}  // namespace foretrace::hardware
