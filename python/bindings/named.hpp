#pragma once
// Enumerations of the library by their names, as Python writes them.

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace foretrace::python {

/// The value of that name, or a ValueError that lists them: "there is no phase 'back'; there are forward, …".
template <class Enum, class Name>
Enum named(std::string_view what, std::string_view name, std::size_t count, Name name_of) {
  std::string there;
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<Enum>(i);
    if (name_of(value) == name) return value;
    there += fmt::format("{}{}", i == 0 ? "" : ", ", name_of(value));
  }
  throw nanobind::value_error(fmt::format("there is no {} '{}'; there are {}", what, name, there).c_str());
}
template <class Enum>
Enum named(std::string_view what, std::string_view name, std::size_t count) {
  return named<Enum>(what, name, count, [](Enum value) { return to_string(value); });
}

}  // namespace foretrace::python
