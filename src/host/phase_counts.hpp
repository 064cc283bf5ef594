#pragma once
// What a trace's phases are made of, counted: launches and module calls. Their number does not change with the host's speed, so it
// tells what a phase takes where the traced time may have been a slow moment's.

#include <array>
#include <cstddef>

#include "foretrace/host/unprofiled.hpp"

namespace foretrace::host {

struct CountedPhases {
  std::array<double, kCpuPhases> launches = {}, generated = {}, ops = {}, layers = {};

  /// Calls of modules: as many as the trace has ranges of layers, or what its operations make likely.
  [[nodiscard]] double modules(std::size_t phase, const HostCosts& host) const;
  /// Factor of `ns`, the time of a phase without the profiler as the trace's own times give it, when its launches are counted too.
  [[nodiscard]] double correction(std::size_t phase, double ns, const HostCosts& host) const;
};

CountedPhases count_phases(const graph::Graph& graph);

/// Of `own`, a phase's traced time less what recording took, what is left at the step's speed. `modules` are calls of them.
double kept_share(Ns own, double modules, double traced_speed, const HostCosts& host);

}  // namespace foretrace::host
