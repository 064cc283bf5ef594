#pragma once
// The one reader of CSV. Lines that start with '#' are comments, blank lines are skipped, quotes around a cell come off. A quoted
// cell holds no comma in the files read here.
//
//   for (CsvReader row(text); row.next();) use(row["name"], row.number("value"));

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foretrace/base/result.hpp"

namespace foretrace {

/// The cells of one line, into `cells`; they point into the line.
void split_csv(std::string_view line, std::vector<std::string_view>& cells);

class CsvReader {
 public:
  /// The first row names the columns.
  explicit CsvReader(std::string_view text);
  /// A file without a header row.
  CsvReader(std::string_view text, std::vector<std::string_view> columns) : rest_(text), columns_(std::move(columns)) {}

  /// Moves to the next row; false at the end. Cells point into the text.
  bool next();
  [[nodiscard]] const std::vector<std::string_view>& columns() const { return columns_; }
  [[nodiscard]] const std::vector<std::string_view>& cells() const { return cells_; }
  /// Empty where the row ends before that column, or the table has none of that name.
  [[nodiscard]] std::string_view operator[](std::string_view column) const;
  [[nodiscard]] std::optional<double> number(std::string_view column) const;
  /// Of the current row, counted from 1.
  [[nodiscard]] std::size_t line() const { return line_; }
  /// "line 7: MESSAGE".
  [[nodiscard]] tl::unexpected<Error> error(std::string_view message, std::string origin, std::string hint) const;

 private:
  std::string_view rest_;
  std::size_t line_ = 0;
  std::vector<std::string_view> columns_, cells_;
};

/// Named values of a table that the program ships, "name,value,…" by row without a header. Each must be there and above 0.
void read_values(std::string_view csv, std::span<const std::pair<std::string_view, double*>> places);

}  // namespace foretrace
