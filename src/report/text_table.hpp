#pragma once
// Tables for a terminal: columns as wide as their widest cell, numbers to the right, long columns ("name") shortened in the
// middle, or a sentence wrapped, until the row fits the width; of several the widest gives way first, until they are equally
// wide.
//
//   TextTable table({{"kernel", Align::kLeft, true}, {"launches"}, {"ms"}, {"share", Align::kBar}});
//   table.row({"void gemm<…>", "12", "3.500", "0.35"});
//   table.render({.width = 60})
//
//     kernel                             launches     ms  share
//     void gemm<…>                             12  3.500  ███▌

#include <cstddef>
#include <string>
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
  bool shrink = false;  ///< may be shortened in the middle, down to kNarrowest columns
  bool wrap = false;    ///< gives way as `shrink` does, and goes on in further lines instead: sentences
};

class TextTable {
 public:
  static constexpr std::size_t kNarrowest = 12;
  static constexpr std::size_t kBarWidth = 10;

  explicit TextTable(std::vector<TableColumn> columns, std::size_t indent = 2)
      : columns_(std::move(columns)), indent_(indent) {}
  /// One cell per column; missing ones are empty. Cells are made printable here.
  void row(std::vector<std::string> cells);
  /// A line under the table's rows, as long as it needs to be: "… and 31 more, 4.2 ms".
  void note(std::string text) { notes_.push_back(std::move(text)); }
  [[nodiscard]] std::size_t rows() const { return rows_.size(); }
  /// Every line ends with a newline and without trailing blanks.
  [[nodiscard]] std::string render(const TextStyle& style) const;

 private:
  std::vector<TableColumn> columns_;
  std::size_t indent_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::string> notes_;
};

/// A bar of at most `width` columns for a fraction of 0 to 1, in eighths of a column (UTF-8) or in '#'.
std::string bar(double fraction, std::size_t width, bool utf8);

}  // namespace foretrace::report
