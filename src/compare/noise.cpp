// How far two recordings may differ by chance. The figure of unchanged programs counts like two recordings of the user's own, so that a
// few recordings per side cannot claim to have no noise.

#include "compare/noise.hpp"

#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "base/decimal.hpp"
#include "base/text.hpp"
#include "foretrace/base/result.hpp"

namespace foretrace::compare {

namespace {

// One recording a side: both are held against what others were seen to differ by, which is not this program's own figure. With
// 2.5 standard errors no difference is claimed in 95 of 100 pairs of the 50 recordings the table is from, the worst program's
// too (docs/reference/compare.md).
constexpr double kFew = 2.5;
// How many recordings the table's figure counts for beside a side's own.
constexpr double kPriorWeight = 2;

double mean_log(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += std::log(v);
  return sum / static_cast<double>(values.size());
}

double squares(const std::vector<double>& values) {
  const double mean = mean_log(values);
  double sum = 0;
  for (const double v : values) sum += (std::log(v) - mean) * (std::log(v) - mean);
  return sum;
}

}  // namespace

const Noise& Noise::usual() {
  static const Noise kUsual = [] {
    std::map<std::string_view, double> rows;
    for (CsvReader row(data_file("compare/noise/recordings.csv"), {"name", "value"}); row.next();) {
      const std::optional<double> value = row.number("value");
      FORETRACE_CHECK(value.has_value());
      rows[row["name"]] = *value;
    }
    return Noise{rows.at("host_clean"),   rows.at("host_traced"), rows.at("gpu"),
                 rows.at("common"),       rows.at("long_kernel"), rows.at("kernel"),
                 rows.at("short_kernel"), rows.at("host_copy"),   rows.at("cpu_op")};
  }();
  return kUsual;
}

Spread spread_of(const std::vector<double>& before, const std::vector<double>& after, double usual_before,
                 double usual_after) {
  const auto n = static_cast<double>(before.size()), m = static_cast<double>(after.size());
  const double own = n + m - 2;
  const double usual = (usual_before * usual_before + usual_after * usual_after) / 2;
  Spread out;
  if (own < 1) {
    out.error = std::sqrt(usual_before * usual_before + usual_after * usual_after);
    out.quantile = kFew;
    return out;
  }
  const double variance = (kPriorWeight * usual + squares(before) + squares(after)) / (kPriorWeight + own);
  const double freedom = kPriorWeight + own;
  out.error = std::sqrt(variance * (1 / n + 1 / m));
  out.quantile = 1.96 + 3.2 / freedom;  // Student's 97.5th percentile, within 2 % from 3 degrees of freedom on
  out.own = true;
  return out;
}

}  // namespace foretrace::compare
