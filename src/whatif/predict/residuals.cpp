#include "whatif/predict/residuals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/by_device.hpp"
#include "base/csv.hpp"
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

// The reference device: no file has this name.
constexpr std::string_view kReference;

double rms_of_families(const DataFiles& files, std::string_view device) {
  const Residuals residuals = read_residuals(files, device);
  std::map<std::string_view, double> families;
  for (const Residuals::Row& row : residuals.rows()) families.try_emplace(row.family, residuals.sigma(row.family));
  double squares = 0;
  for (const auto& [family, sigma] : families) squares += sigma * sigma;
  return std::sqrt(squares / static_cast<double>(families.size()));
}

}  // namespace

Residuals read_residuals(const DataFiles& files, std::string_view device) {
  const DataFile file = files.measured("whatif/residuals", device);
  Result<Residuals> table = Residuals::parse(file.text, file.stem());
  FORETRACE_CHECK(table.has_value());
  return *std::move(table);
}

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

const Residuals& Residuals::built_in(std::string_view device) { return by_device<read_residuals>(device); }

double Residuals::sigma(std::string_view family) const {
  Spread s = spread_of(rows_, [&](const Row& row) { return row.family == family; });
  if (s.models == 0 && of_kernels(family)) {
    s = spread_of(rows_, [](const Row& row) { return of_kernels(row.family); });
  }
  return s.models == 0 ? unmeasured(kReference) : s.four_of_five / kTenthPercentile * small_sample(s.models);
}

double Residuals::unmeasured(std::string_view device) { return by_device<rms_of_families>(device); }

std::size_t Residuals::models(std::string_view family) const {
  return spread_of(rows_, [&](const Row& row) { return row.family == family; }).models;
}

}  // namespace foretrace::whatif
