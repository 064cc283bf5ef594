#pragma once
// The findings of doctor. Each check is one small function over Facts; a new one is one function and one line in the list at the
// end of its file. checks.cpp has those of what a trace records, steadiness.cpp of start-up work and the allocator,
// gpu.cpp of the GPU's side, graph.cpp of the graph and waits.cpp of unexplained waits.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/doctor/facts.hpp"
#include "foretrace/analysis/doctor.hpp"

namespace foretrace::analysis {

using Check = std::optional<Finding> (*)(const Facts&);

/// What the checks of a list found, in its order.
template <class List>
std::vector<Finding> findings_of(const List& checks, const Facts& facts) {
  std::vector<Finding> findings;
  for (const Check check : checks) {
    if (std::optional<Finding> finding = check(facts)) findings.push_back(std::move(*finding));
  }
  return findings;
}

/// The remedy of several checks.
inline constexpr const char* kBothActivities =
    "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])";

/// The share of `some` in `all`; 0 of nothing.
inline double part(std::uint64_t some, std::uint64_t all) {
  return all > 0 ? static_cast<double>(some) / static_cast<double>(all) : 0;
}

// steadiness.cpp
std::optional<Finding> cold_step(const Facts& facts);
std::optional<Finding> cold_steps_left_out(const Facts& facts);
std::optional<Finding> allocator(const Facts& facts);

// gpu.cpp
std::optional<Finding> orphans(const Facts& facts);
std::optional<Finding> before_launch(const Facts& facts);
std::optional<Finding> duplicate_correlations(const Facts& facts);
std::optional<Finding> no_external_id(const Facts& facts);
std::optional<Finding> graph_work(const Facts& facts);
std::optional<Finding> whole_graphs(const Facts& facts);
std::optional<Finding> overlaps(const Facts& facts);
std::optional<Finding> no_cuda_sync(const Facts& facts);
std::optional<Finding> unresolved_waits(const Facts& facts);
std::optional<Finding> no_memory(const Facts& facts);
std::optional<Finding> no_device_properties(const Facts& facts);
std::optional<Finding> no_launch_geometry(const Facts& facts);
std::optional<Finding> whole_microseconds(const Facts& facts);
std::optional<Finding> profiler_stalls(const Facts& facts);

/// Builds and simulates the median step, for the checks of its graph (graph.cpp).
void replay_median_step(Facts& facts);
std::vector<Finding> check_graph(const Facts& facts);

/// Whether the step can move: frozen time, the two limits, ramp-up (waits.cpp).
void examine_waits(const graph::Graph& graph, DoctorReport::Replay& replay);
std::vector<Finding> check_waits(const Facts& facts);

/// What-ifs that were added, one row each, by name (whatifs.cpp).
std::vector<DoctorReport::AddedWhatIf> check_added_whatifs(const trace::Trace& trace);

/// The fields our recorder is known to write, in its order, each value as JSON. A file may claim to hold others; as with all
/// metadata, values of unknown keys are not shown (recorder.cpp).
std::vector<std::pair<std::string, std::string>> recorder_fields(const trace::Trace& trace);

/// Gives each finding the remedy for the profiler that wrote the trace: a flag of nsys, a line of JAX. The checks themselves
/// name PyTorch's (remedies.cpp).
void name_remedies(const trace::Trace& trace, std::vector<Finding>& findings);

/// All findings, heaviest first.
std::vector<Finding> check_all(const Facts& facts);

}  // namespace foretrace::analysis
