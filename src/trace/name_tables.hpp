#pragma once
// The tables of names under src/trace/names, compiled in: what engines, trainers and libraries call things. A line is a row,
// '#' begins a comment, the first row names the columns.
//
//   for (const NameRow& row : name_table("steps", 4)) …   // row[2] is the pattern

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foretrace::trace {

using NameRow = std::vector<std::string_view>;

/// The rows of one table, header left out. `columns` is checked: a built-in file that lacks one is a bug.
std::vector<NameRow> name_table(std::string_view stem, std::size_t columns);

/// Whether a name is of a pattern: '*' any text, "%d" a number, anything else itself; case does not count.
///   matches("Step 12", "step %d") -> true
bool matches(std::string_view name, std::string_view pattern);

/// Numbers as "%d": "step 12" and "step 13" are ranges of one kind, "step %d".
std::string without_numbers(std::string_view name);

}  // namespace foretrace::trace
