#include "hardware/category_correlations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/csv.hpp"
#include "base/text.hpp"

namespace foretrace::hardware {

namespace {

std::string key(std::string_view form, std::string_view word, std::string_view other) {
  return fmt::format("{},{},{}", form, std::min(word, other), std::max(word, other));
}

}  // namespace

CategoryCorrelations::CategoryCorrelations(std::string_view csv) {
  for (CsvReader row(csv, {"form", "word", "other", "shapes", "correlation"}); row.next();) {
    by_words_[key(row["form"], row["word"], row["other"])] = row.number("correlation").value_or(0);
    varying_.emplace(row["word"]);
    varying_.emplace(row["other"]);
  }
}

double CategoryCorrelations::of(std::string_view category, std::string_view other) const {
  if (category == other) return 1;
  const std::vector<std::string_view> a = split(category, ' '), b = split(other, ' ');
  if (a.size() != b.size()) return 0;
  std::string form;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] && varying_.find(a[i]) == varying_.end()) form.append(form.empty() ? "" : " ").append(a[i]);
  }
  double product = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    const auto found = by_words_.find(key(form, a[i], b[i]));
    product *= found == by_words_.end() ? 0 : found->second;
  }
  return product;
}

}  // namespace foretrace::hardware
