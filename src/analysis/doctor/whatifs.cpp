// Whether a trace holds what the what-ifs of a program or plugin need. For the catalogue's, the findings say what each gap in
// the trace costs.

#include "analysis/doctor/checks.hpp"
#include "foretrace/analysis/baseline.hpp"

namespace foretrace::analysis {

std::vector<DoctorReport::AddedWhatIf> check_added_whatifs(const trace::Trace& trace) {
  std::vector<DoctorReport::AddedWhatIf> out;
  const std::vector<const whatif::WhatIf*> added = whatif::added_whatifs();
  if (added.empty()) return out;
  const Result<Baseline> baseline = make_baseline(trace, std::nullopt, std::nullopt);
  for (const whatif::WhatIf* w : added) {
    DoctorReport::AddedWhatIf& row = out.emplace_back();
    row.name = w->name;
    if (!baseline) {
      row.missing.push_back(baseline.error().message);
      continue;
    }
    for (const whatif::Need need : w->needs) {
      if (std::string why = whatif::missing(baseline->model, need); !why.empty()) row.missing.push_back(std::move(why));
    }
  }
  return out;
}

}  // namespace foretrace::analysis
