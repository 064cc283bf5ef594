#include "whatif/model/evidence.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "base/data_files.hpp"
#include "base/decimal.hpp"
#include "base/text.hpp"

namespace foretrace::whatif {

namespace {

const std::map<std::string_view, Evidence>& counts() {
  static const std::map<std::string_view, Evidence> kCounts = [] {
    std::map<std::string_view, Evidence> all;
    for (const DataFile& file : data_files_in("whatif/validation")) {
      const std::string_view stem = file.stem(), text = file.text;
      if (stem != "counts") continue;
      for (const std::string_view line : split(text, '\n')) {
        if (line.empty() || line.front() == '#') continue;
        const std::vector<std::string_view> fields = csv_fields(line);
        FORETRACE_CHECK(fields.size() == 3);  // name,rows,models
        const std::optional<double> rows = parse_double(fields[1]);
        const std::optional<double> models = parse_double(fields[2]);
        FORETRACE_CHECK(rows && models);
        all[fields[0]] = {static_cast<int>(*rows), static_cast<int>(*models)};
      }
    }
    return all;
  }();
  return kCounts;
}

}  // namespace

const std::vector<PastErrors>& past_errors() {
  static const std::vector<PastErrors> kErrors = [] {
    std::vector<PastErrors> all;
    for (const DataFile& file : data_files_in("whatif/validation")) {
      const std::string_view stem = file.stem(), text = file.text;
      if (stem != "errors") continue;
      for (const std::string_view line : split(text, '\n')) {
        if (line.empty() || line.front() == '#') continue;
        const std::vector<std::string_view> f = csv_fields(line);
        FORETRACE_CHECK(f.size() == 6);  // name, rows, step mean and worst, GPU time, memory; empty: unknown
        const std::optional<double> rows = parse_double(f[1]);
        FORETRACE_CHECK(rows.has_value());
        all.push_back({f[0], static_cast<int>(*rows), parse_double(f[2]), parse_double(f[3]), parse_double(f[4]),
                       parse_double(f[5])});
      }
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
