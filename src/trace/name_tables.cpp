#include "trace/name_tables.hpp"

#include <fmt/format.h>

#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "base/text.hpp"
#include "foretrace/base/result.hpp"

namespace foretrace::trace {

std::vector<NameRow> name_table(std::string_view stem, std::size_t columns) {
  std::vector<NameRow> rows;
  for (CsvReader row(data_file(fmt::format("trace/names/{}.csv", stem))); row.next();) {
    FORETRACE_CHECK(row.cells().size() == columns);
    rows.push_back(row.cells());
  }
  FORETRACE_CHECK(!rows.empty());
  return rows;
}

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
char small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::string without_numbers(std::string_view name) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (!is_digit(name[i])) {
      out += name[i];
    } else if (i == 0 || !is_digit(name[i - 1])) {
      out += "%d";
    }
  }
  return out;
}

bool matches(std::string_view name, std::string_view pattern) {
  std::size_t n = 0;
  std::size_t p = 0;
  std::size_t star = std::string_view::npos;  // the last '*', and how much of the name it has taken
  std::size_t taken = 0;
  while (n < name.size() || p < pattern.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
      continue;
    }
    if (p + 1 < pattern.size() && pattern[p] == '%' && pattern[p + 1] == 'd') {
      if (n < name.size() && is_digit(name[n])) {
        while (n < name.size() && is_digit(name[n])) ++n;
        p += 2;
        continue;
      }
    } else if (n < name.size() && p < pattern.size() && small(name[n]) == small(pattern[p])) {
      ++n;
      ++p;
      continue;
    }
    if (star == std::string_view::npos || taken >= name.size()) return false;
    n = ++taken;
    p = star + 1;
  }
  return true;
}

}  // namespace foretrace::trace
