#pragma once
// Checks of doctor that look at the GPU's side: launches and what ties work to them, streams, memory, the device.

#include <optional>

#include "analysis/doctor/facts.hpp"
#include "foretrace/analysis/doctor.hpp"

namespace foretrace::analysis {

/// The advice of several checks.
inline constexpr const char* kBothActivities =
    "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])";

/// The share of `some` in `all`; 0 of nothing.
inline double part(std::uint64_t some, std::uint64_t all) {
  return all > 0 ? static_cast<double>(some) / static_cast<double>(all) : 0;
}

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

}  // namespace foretrace::analysis
