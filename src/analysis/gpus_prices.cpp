// What GPUs cost: lists of prices, and how old each price is.

#include "analysis/gpus_prices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/csv.hpp"
#include "base/decimal.hpp"
#include "base/text.hpp"

namespace foretrace::analysis {

namespace {

// "2026-11" and "2026-11-09": months since the year 0.
std::optional<int> month_of(std::string_view text) {
  if (text.size() < 7 || text[4] != '-') return std::nullopt;
  const std::optional<double> year = parse_double(text.substr(0, 4));
  const std::optional<double> month = parse_double(text.substr(5, 2));
  if (!year || !month || *month < 1 || *month > 12) return std::nullopt;
  return static_cast<int>(*year) * 12 + static_cast<int>(*month) - 1;
}

}  // namespace

Result<std::vector<ListedPrice>> read_prices(std::string_view csv, const std::string& origin) {
  const std::string hint = "a price list has the columns device,usd_per_hour,provider,date";
  std::vector<ListedPrice> prices;
  CsvReader row(csv);
  const auto wrong = [&](std::string_view what) { return row.error(what, origin, hint); };
  if (row.columns().empty()) {
    return tl::unexpected<Error>(
        Error{ErrorCode::kUnreadable, "the price list is empty", origin, Error::kNoOffset, hint});
  }
  if (row.columns() != std::vector<std::string_view>{"device", "usd_per_hour", "provider", "date"}) {
    return wrong("not the header of a price list");
  }
  while (row.next()) {
    if (row.cells().size() != 4) return wrong(fmt::format("{} cells instead of 4", row.cells().size()));
    const std::optional<double> usd = row.number("usd_per_hour");
    if (!usd || !(*usd >= 0) || *usd > kHighestPrice) return wrong("the price is not a number of dollars");
    if (row["provider"].empty()) return wrong("a price needs a provider");
    if (!month_of(row["date"])) return wrong("a price needs a date, 2026-11-09");
    prices.push_back({std::string(row["device"]), *usd, fmt::format("{}, {}", row["date"], row["provider"])});
  }
  return prices;
}

void say_age(std::vector<GpuPrediction>& predictions) {
  std::optional<int> newest;
  for (const hardware::Device& d : hardware::devices()) {
    if (const auto month = month_of(d.price_source); month && (!newest || *month > *newest)) newest = month;
  }
  for (const GpuPrediction& g : predictions) {
    if (const auto month = month_of(g.price_source); month && (!newest || *month > *newest)) newest = month;
  }
  for (GpuPrediction& g : predictions) {
    const std::optional<int> month = month_of(g.price_source);
    if (!month || !newest || *newest - *month < 12) continue;
    const int years = (*newest - *month) / 12;
    g.price_age = fmt::format("{} {} older than the newest price known", years, years == 1 ? "year" : "years");
  }
}

}  // namespace foretrace::analysis
