#include "whatif/model/evidence.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/csv.hpp"
#include "base/data_files.hpp"

namespace foretrace::whatif {

namespace {

const std::map<std::string_view, Evidence>& counts() {
  static const std::map<std::string_view, Evidence> kCounts = [] {
    std::map<std::string_view, Evidence> all;
    for (CsvReader row(data_file("whatif/validation/counts.csv"), {"name", "rows", "models"}); row.next();) {
      const std::optional<double> rows = row.number("rows"), models = row.number("models");
      FORETRACE_CHECK(rows && models);
      all[row["name"]] = {static_cast<int>(*rows), static_cast<int>(*models)};
    }
    return all;
  }();
  return kCounts;
}

}  // namespace

const std::vector<PastErrors>& past_errors() {
  static const std::vector<PastErrors> kErrors = [] {
    std::vector<PastErrors> all;
    CsvReader row(data_file("whatif/validation/errors.csv"), {"name", "rows", "mean", "worst", "gpu", "memory"});
    while (row.next()) {
      const std::optional<double> rows = row.number("rows");
      FORETRACE_CHECK(rows.has_value());
      all.push_back({row["name"], static_cast<int>(*rows), row.number("mean"), row.number("worst"), row.number("gpu"),
                     row.number("memory")});  // an empty cell is an unknown error
    }
    return all;
  }();
  return kErrors;
}

Evidence evidence_of(std::string_view name) {
  const auto found = counts().find(name);
  return found == counts().end() ? Evidence{} : found->second;
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
