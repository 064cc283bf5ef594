// How far two recordings may differ by chance. The table's figure counts like two recordings of the user's own, so that a few recordings
// per side that happen to agree cannot claim to have no noise.

#include "compare/noise.hpp"

#include <cmath>
#include <map>
#include <string_view>

#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "compare/student.hpp"
#include "foretrace/base/result.hpp"

namespace foretrace::compare {

namespace {

// How many recordings the table's figure counts for, next to a side's own.
constexpr double kPriorWeight = 2;

// How often chance may look like a change. Less often where the noise is borrowed from other programs, since this one may be noisier:
// with 0.01, nothing is claimed in 95 of 100 pairs of unchanged recordings (tools/compare_accuracy.py).
constexpr double kChance = 0.05, kBorrowedChance = 0.01;

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

const Noise& Noise::table() {
  static const Noise kTable = [] {
    std::map<std::string_view, Sigma> rows;
    for (CsvReader row(data_file("compare/noise/recordings.csv"), {"name", "value", "programs", "pairs", "error"});
         row.next();) {
      const std::optional<double> value = row.number("value"), programs = row.number("programs");
      FORETRACE_CHECK(value.has_value() && programs.has_value());
      rows[row["name"]] = {*value, *programs};
    }
    const auto value = [&](std::string_view name) { return rows.at(name).value; };
    return Noise{rows.at("host_clean"), rows.at("host_traced"), rows.at("host_sessions"), rows.at("gpu"),
                 value("common"),       value("long_kernel"),   value("kernel"),          value("short_kernel"),
                 value("host_copy"),    value("cpu_op")};
  }();
  return kTable;
}

double Estimate::noise() const { return two_sided_quantile(own ? kChance : kBorrowedChance, freedom) * error; }

double Estimate::p_value() const {
  if (error > 0) return two_sided_p(change / error, freedom);
  return change == 0 ? 1 : 0;
}

Change to_change(const Estimate& e) {
  const auto percent = [](double log) { return 100 * std::expm1(log); };
  return {percent(e.change), percent(e.noise()), percent(e.low()), percent(e.high()), e.p_value()};
}

Estimate estimate(const std::vector<double>& before, const std::vector<double>& after, Sigma alone, Sigma prior) {
  const auto n = static_cast<double>(before.size()), m = static_cast<double>(after.size());
  const double own = n + m - 2;
  Estimate out;
  out.change = mean_log(after) - mean_log(before);
  out.own = own >= 1;
  out.freedom = out.own ? kPriorWeight + own : alone.programs;
  const double variance =
      out.own ? (kPriorWeight * prior.value * prior.value + squares(before) + squares(after)) / out.freedom
              : alone.value * alone.value;
  out.error = std::sqrt(variance * (1 / n + 1 / m));
  return out;
}

namespace {

// A few recordings may show a larger spread than the program has: the variance that nine of ten sets of them stay below, over the true
// one. The quantile of chi-square by Wilson and Hilferty, 1931.
double unlucky_variance(double freedom) {
  constexpr double kNineOfTen = 1.2816;
  const double spread = 2 / (9 * freedom);
  return std::pow(1 - spread + kNineOfTen * std::sqrt(spread), 3);
}

}  // namespace

Estimate with_recordings(const Estimate& now, std::size_t before, std::size_t after, std::size_t recordings) {
  const double share = 1 / static_cast<double>(before) + 1 / static_cast<double>(after);
  const double own = 2 * static_cast<double>(recordings) - 2;
  Estimate out = now;
  out.own = true;
  out.freedom = kPriorWeight + own;
  const double unlucky = own > 0 ? (kPriorWeight + own * unlucky_variance(own)) / out.freedom : 1;
  out.error = now.error * std::sqrt(unlucky * 2 / static_cast<double>(recordings) / share);
  return out;
}

}  // namespace foretrace::compare
