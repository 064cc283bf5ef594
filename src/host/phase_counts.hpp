#pragma once
// The launches and module calls of each phase. Their number does not depend on the host's speed, so it corrects the traced time of a
// phase that was recorded while the host was slow.

#include <array>
#include <cstddef>

#include "foretrace/host/unprofiled.hpp"

namespace foretrace::host {

struct PhaseCounts {
  std::array<double, kCpuPhases> launches = {}, generated = {}, ops = {}, layers = {};

  /// A pass that a compiler generated.
  [[nodiscard]] bool is_compiled(std::size_t phase) const;
  /// Calls of modules: the ranges of layers in the trace, else an estimate from the number of operations.
  [[nodiscard]] double modules(std::size_t phase, const HostCosts& host) const;
  /// Time without the profiler by the number of launches alone, at the speed of steps; 0 where launches are not alike.
  [[nodiscard]] double launches_us(std::size_t phase, const HostCosts& host) const;
  /// A factor of `ns`, the time of a phase without the profiler as estimated from traced times.
  [[nodiscard]] double correction(std::size_t phase, double ns, const HostCosts& host) const;
};

/// Whether the step is one of several ranks.
bool has_collectives(const graph::Graph& graph);

PhaseCounts count_phases(const graph::Graph& graph);

/// The share of a phase's traced time, less recording (`own`), that is left at the step's speed.
double remaining_share(Ns own, double modules, double traced_speed, const HostCosts& host);
/// The same, corrected by the counts: the law of a phase's CPU time without the profiler (tools/fit_host.py fits its figures).
double remaining_share(Ns own, std::size_t phase, const PhaseCounts& counts, double traced_speed,
                       const HostCosts& host);

}  // namespace foretrace::host
