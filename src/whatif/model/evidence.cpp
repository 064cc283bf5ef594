#include "whatif/model/evidence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "base/decimal.hpp"
#include "base/text.hpp"

namespace foretrace::whatif {

namespace {

// The rows of validation/<table>.csv, each with so many fields.
std::vector<std::vector<std::string_view>> rows_of(std::string_view table, std::size_t fields) {
  std::vector<std::vector<std::string_view>> rows;
  for (CsvReader row(data_file(fmt::format("whatif/validation/{}.csv", table)), {}); row.next();) {
    FORETRACE_CHECK(row.cells().size() == fields);
    rows.push_back(row.cells());
  }
  return rows;
}

int count(std::string_view field) {
  const std::optional<double> number = parse_double(field);
  FORETRACE_CHECK(number.has_value());
  return static_cast<int>(*number);
}

}  // namespace

const std::vector<PastErrors>& past_errors() {
  static const std::vector<PastErrors> kErrors = [] {
    std::vector<PastErrors> all;
    // Name, rows, mean and worst error of the step, error of GPU time and of memory, the worst row, rows of unseen networks and their
    // error, networks between ranks, blind rows and their error; empty: unknown.
    for (const std::vector<std::string_view>& f : rows_of("errors", 12)) {
      all.push_back({f[0], count(f[1]), parse_double(f[2]), parse_double(f[3]), parse_double(f[4]), parse_double(f[5]),
                     f[6], count(f[7]), parse_double(f[8]), count(f[9]), count(f[10]), parse_double(f[11])});
    }
    return all;
  }();
  return kErrors;
}

const PastErrors* past_errors_of(std::string_view whatif) {
  const std::vector<PastErrors>& all = past_errors();
  const auto found = std::find_if(all.begin(), all.end(), [&](const PastErrors& e) { return e.whatif == whatif; });
  return found == all.end() ? nullptr : &*found;
}

Evidence evidence_of(std::string_view name) {
  static const std::map<std::string_view, Evidence> kCounts = [] {
    std::map<std::string_view, Evidence> all;
    for (const std::vector<std::string_view>& f : rows_of("counts", 4)) all[f[0]] = {count(f[1]), count(f[2])};
    return all;
  }();
  const auto found = kCounts.find(name);
  return found == kCounts.end() ? Evidence{} : found->second;
}

Evidence least_evidence(const std::vector<Use>& uses) {
  if (uses.empty()) return {};
  Evidence least = uses.front().whatif->evidence;
  for (const Use& use : uses) {
    least.rows = std::min(least.rows, use.whatif->evidence.rows);
    least.models = std::min(least.models, use.whatif->evidence.models);
  }
  return least;
}

}  // namespace foretrace::whatif
