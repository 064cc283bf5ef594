#include "base/csv.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/decimal.hpp"
#include "base/text.hpp"

namespace foretrace {

// Into the same vector, row after row: the tables of kernels have a million cells.
void split_csv(std::string_view line, std::vector<std::string_view>& cells) {
  cells.clear();
  for (;;) {
    const std::size_t comma = line.find(',');
    std::string_view cell = trimmed(line.substr(0, comma));
    if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"') cell = cell.substr(1, cell.size() - 2);
    cells.push_back(cell);
    if (comma == std::string_view::npos) return;
    line.remove_prefix(comma + 1);
  }
}

CsvReader::CsvReader(std::string_view text) : rest_(text) {
  if (next()) columns_.swap(cells_);
}

bool CsvReader::next() {
  while (!rest_.empty()) {
    const std::size_t end = rest_.find('\n');
    const std::string_view line = trimmed(rest_.substr(0, end));
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    ++line_;
    if (line.empty() || line.front() == '#') continue;
    split_csv(line, cells_);
    return true;
  }
  cells_.clear();
  return false;
}

std::string_view CsvReader::operator[](std::string_view column) const {
  const auto at = static_cast<std::size_t>(std::find(columns_.begin(), columns_.end(), column) - columns_.begin());
  return at < columns_.size() && at < cells_.size() ? cells_[at] : std::string_view();
}

std::optional<double> CsvReader::number(std::string_view column) const { return parse_double((*this)[column]); }

tl::unexpected<Error> CsvReader::error(std::string_view message, std::string origin, std::string hint) const {
  return tl::unexpected(Error{ErrorCode::kUnreadable, fmt::format("line {}: {}", line_, message), std::move(origin),
                              Error::kNoOffset, std::move(hint)});
}

void read_values(std::string_view csv, std::span<const std::pair<std::string_view, double*>> places) {
  std::size_t given = 0;
  for (CsvReader row(csv, {"name", "value"}); row.next();) {
    for (const auto& [name, place] : places) {
      if (row["name"] != name) continue;
      *place = row.number("value").value_or(0);
      given += *place > 0 ? 1U : 0U;
    }
  }
  FORETRACE_CHECK(given == places.size());
}

}  // namespace foretrace
