#pragma once
// Tables for a terminal: columns as wide as their widest cell, numbers to the right. A table that is too wide for the terminal
// is narrowed in this order:
//   1. long names lose their middle and sentences wrap, the widest column first, down to kReadable columns
//   2. bars are left out
//   3. columns with a `drop` number are left out, 1 first; a line under the table names them
//   4. names are shortened further, down to kNarrowest columns
//   5. each row becomes a paragraph: its first cell, then "header value, header value"; nothing more is left out
// 3 and 5 only where the width is that of a terminal (TextStyle::all_columns is false).
//
//   TextTable table({{"kernel", Align::kLeft, true}, {"launches"}, {"ms"}, {"share", Align::kBar}});
//   table.row({"void gemm<…>", "12", "3.500", "0.35"});
//   table.render({.width = 60})
//
//     kernel                             launches     ms  share
//     void gemm<…>                             12  3.500  ███▌

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/report/report.hpp"

namespace foretrace::report {

enum class Align : unsigned char {
  kRight,  ///< numbers
  kLeft,   ///< texts
  kBar,    ///< a cell is a fraction of 0 to 1 ("0.35") and is drawn; dropped first when the width is short
};

struct TableColumn {
  std::string header;
  Align align = Align::kRight;
  bool shrink = false;   ///< may be shortened in the middle
  bool wrap = false;     ///< narrowed as with `shrink`, but wrapped to further lines: sentences
  std::size_t drop = 0;  ///< 0: always shown; else its turn to be left out where the terminal is narrow
};

class TextTable {
 public:
  static constexpr std::size_t kReadable = 20;
  static constexpr std::size_t kNarrowest = 12;
  static constexpr std::size_t kBarWidth = 10;

  explicit TextTable(std::vector<TableColumn> columns, std::size_t indent = 2)
      : columns_(std::move(columns)), indent_(indent) {}
  /// One cell per column; missing ones are empty. Cells are made printable here.
  void row(std::vector<std::string> cells);
  /// A line under the table's rows, wrapped: "… and 31 more, 4.2 ms".
  void note(std::string text) { notes_.push_back(std::move(text)); }
  [[nodiscard]] std::size_t rows() const { return rows_.size(); }
  /// Every line ends with a newline and without trailing blanks.
  [[nodiscard]] std::string render(const TextStyle& style) const;

 private:
  struct Layout {
    std::vector<std::size_t> widths;
    std::vector<char> shown;
    bool stacked = false;
  };
  [[nodiscard]] std::size_t total(const Layout& layout) const;
  void shrink(Layout& layout, std::size_t width, std::size_t least, bool sentences) const;
  [[nodiscard]] Layout fit(const TextStyle& style) const;
  [[nodiscard]] bool headed() const;
  [[nodiscard]] std::string render_rows(const Layout& layout, const TextStyle& style) const;
  [[nodiscard]] std::string render_stacked(const TextStyle& style) const;

  std::vector<TableColumn> columns_;
  std::size_t indent_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::string> notes_;
};

/// `text` on lines of its own, indented; further lines by two columns more.
std::string text_line(std::string_view text, const TextStyle& style, std::size_t indent = 0);

/// A bar of at most `width` columns for a fraction of 0 to 1, in eighths of a column (UTF-8) or in '#'.
std::string bar(double fraction, std::size_t width, bool utf8);

}  // namespace foretrace::report
