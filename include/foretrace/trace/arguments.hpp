#pragma once
// The arguments of an event as the file has them.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace foretrace::trace {

/// Key and raw JSON of each argument of a tuple (ArgsTable::text); also where a value is not valid JSON ("nan").
std::vector<std::pair<std::string, std::string>> argument_pairs(std::string_view tuple);

}  // namespace foretrace::trace
