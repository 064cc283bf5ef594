#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "base/decimal.hpp"
#include "base/text.hpp"
#include "foretrace/whatif/model.hpp"
#include "whatif/predict/bands.hpp"

namespace foretrace::whatif {

namespace {

// Student's 90th percentile for 1, 2, … degrees of freedom, over the normal one: what few models do not tell. Both by definition.
double small_sample(std::size_t models) {
  // By definition; beyond the table its first term.
  constexpr std::array kFactor = {2.402, 1.471, 1.278, 1.196, 1.152, 1.123, 1.104, 1.090, 1.079, 1.071};
  return models == 0 ? 1 : models <= kFactor.size() ? kFactor[models - 1] : 1 + 0.71 / static_cast<double>(models);
}

struct Spread {
  double four_of_five = 0;  ///< as many residuals are this large or smaller, whichever their sign
  std::size_t models = 0;
};

// One vote per model, shared out among its rows. What holds four of five is taken from the residuals themselves: a few steps
// that went quite wrong would widen a root mean square until it held nineteen of twenty.
template <class Take>
Spread spread_of(const std::vector<Residuals::Row>& rows, Take take) {
  std::map<std::string_view, double> count;
  for (const Residuals::Row& row : rows) {
    if (take(row)) count[row.model] += 1;
  }
  std::vector<std::pair<double, double>> votes;
  for (const Residuals::Row& row : rows) {
    if (take(row)) votes.emplace_back(std::abs(row.residual), 1 / count[row.model]);
  }
  std::sort(votes.begin(), votes.end());
  Spread s;
  s.models = count.size();
  double held = 0;
  for (const auto& [size, vote] : votes) {
    s.four_of_five = size;
    held += vote;
    if (held >= 0.8 * static_cast<double>(s.models) - 1e-9) break;  // four of five, by definition of the band
  }
  return s;
}

bool of_kernels(std::string_view family) {
  return family != kHostFamily && family != kScaledFamily && family != kCombinedFamily && family != kLaunchFamily;
}

}  // namespace

Result<Residuals> Residuals::parse(std::string_view csv, std::string_view file) {
  Residuals out;
  for (CsvReader row(csv, {"family", "model", "residual"}); row.next();) {
    const std::optional<double> value = row.number("residual");
    if (!value || row["family"].empty() || row.cells().size() != row.columns().size()) {
      return row.error("not family,model,residual", std::string(file), "tools/fit_bands.py writes such files");
    }
    out.rows_.push_back({std::string(row["family"]), std::string(row["model"]), *value});
  }
  return out;
}

const Residuals& Residuals::built_in() {
  static const Residuals kBuiltIn = [] {
    Residuals all;
    for (const DataFile& file : data_files_in("whatif/residuals")) {
      Result<Residuals> part = parse(file.text, file.stem());
      FORETRACE_CHECK(part.has_value());
      all.rows_.insert(all.rows_.end(), part->rows_.begin(), part->rows_.end());
    }
    return all;
  }();
  return kBuiltIn;
}

double Residuals::sigma(std::string_view family) const {
  Spread s = spread_of(rows_, [&](const Row& row) { return row.family == family; });
  if (s.models == 0 && of_kernels(family)) {
    s = spread_of(rows_, [](const Row& row) { return of_kernels(row.family); });
  }
  return s.models == 0 ? unmeasured() : s.four_of_five / kTenthPercentile * small_sample(s.models);
}

double Residuals::unmeasured() {
  static const double kUnmeasured = [] {
    std::map<std::string_view, double> families;
    for (const Row& row : built_in().rows_) families.try_emplace(row.family, built_in().sigma(row.family));
    double squares = 0;
    for (const auto& [family, sigma] : families) squares += sigma * sigma;
    return std::sqrt(squares / static_cast<double>(families.size()));
  }();
  return kUnmeasured;
}

std::size_t Residuals::models(std::string_view family) const {
  return spread_of(rows_, [&](const Row& row) { return row.family == family; }).models;
}

}  // namespace foretrace::whatif
