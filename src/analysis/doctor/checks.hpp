#pragma once
// The findings of doctor. Each check is one small function over Facts; a new one is one function and one line in the
// list at the end of checks.cpp, which also holds the checks of what a trace records; gpu.hpp has those of the GPU's side,
// graph.cpp those of the graph.

#include <optional>
#include <utility>
#include <vector>

#include "analysis/doctor/facts.hpp"
#include "foretrace/analysis/doctor.hpp"

namespace foretrace::analysis {

/// What the checks of a list found, in its order.
template <class List>
std::vector<Finding> findings_of(const List& checks, const Facts& facts) {
  std::vector<Finding> findings;
  for (const auto check : checks) {
    if (std::optional<Finding> finding = check(facts)) findings.push_back(std::move(*finding));
  }
  return findings;
}

/// Builds and simulates the median step, for the checks that ask what came of it.
void replay_median_step(Facts& facts);
/// Findings about the graph of the median step, in the same way; its list is in graph.cpp.
std::vector<Finding> check_graph(const Facts& facts);

/// Whether the step can move: frozen time, the two limits, ramp-up (waits.cpp).
void examine_waits(const graph::Graph& graph, DoctorReport::Replay& replay);
std::vector<Finding> check_waits(const Facts& facts);

/// What-ifs that were added, one row each, by name (whatifs.cpp).
std::vector<DoctorReport::AddedWhatIf> check_added_whatifs(const trace::Trace& trace);

/// All findings, heaviest first.
std::vector<Finding> check_all(const Facts& facts);

}  // namespace foretrace::analysis
