#pragma once
// Start-up work: what a program does only the first time. It is recognised by these signs:
//
//   the first launch of a kernel in the trace       its code is loaded (CUDA loads lazily)
//   memory taken from the driver                    the allocator of the framework grows
//   long calls that neither launch, copy nor wait   contexts, handles, modules
//   kernels of one operation, each timed            cuDNN and MIOpen try algorithms
//   ranges in which something is compiled           src/trace/names/compiling.csv
//
// A step is cold when pieces of start-up work, each longer than any call of a warm step, make up a notable part of the step while
// the GPU idles. rules/startup.cpp takes them out of its graph.

#include <cstdint>
#include <utility>
#include <vector>

#include "foretrace/trace/trace.hpp"
#include "graph/trace_index.hpp"

namespace foretrace::graph {

enum class StartupKind : std::uint8_t { kNone, kLaunch, kAllocation, kLoading, kTuning, kCompiling };

/// Time of one thread in which everything is start-up: CPU time, calls, and the GPU work they launch.
struct StartupRange {
  std::uint32_t lane;
  Ns begin, end;
  StartupKind kind;
};

/// No call of the driver takes longer once warm, unless it waits for the GPU; no stretch of CPU time inside an operation that
/// launches work does, and no single thing a profiler does (17 steps of 11 models on H200: hand-overs up to 0.97 ms, stretches up to 1.96).
/// A choice: warm calls take microseconds, loading a module or creating a context milliseconds to seconds.
inline constexpr Ns kLongestWarmCall = 2'000'000;

class StartupIndex {
 public:
  StartupIndex(const TraceIndex& index, const trace::Steps& steps);

  [[nodiscard]] bool cold(std::size_t step) const { return steps_[step].cold; }
  /// Time in calls that allocate and free, where they belong to every step; 0 when that is no notable part of the step.
  [[nodiscard]] Ns allocator(std::size_t step) const { return steps_[step].allocator; }

  /// Of TraceIndex::calls. A call outside of cold steps has a kind, too: only those of cold steps are taken out.
  [[nodiscard]] StartupKind kind(std::uint32_t call) const { return kind_[call]; }
  /// What the call takes once warm.
  [[nodiscard]] Ns warm(std::uint32_t call) const { return kind_[call] == StartupKind::kLaunch ? launch_ : 0; }
  [[nodiscard]] const std::vector<StartupRange>& ranges() const { return ranges_; }
  /// Whether a call that is start-up work ran at some time in [begin, end].
  [[nodiscard]] bool overlaps(Ns begin, Ns end) const;

 private:
  struct Step {
    bool cold = false;
    Ns allocator = 0;
  };

  void find_compiling();
  void find_tuning();
  void find_calls();
  void judge(const trace::Steps& steps);
  /// How much of [begin, end) the GPU did nothing.
  [[nodiscard]] Ns gpu_idle(Ns begin, Ns end) const;
  /// Of a call that is start-up, beyond what it takes once warm; 0 when it may have waited for the GPU or is as short as others.
  [[nodiscard]] Ns evidence(std::uint32_t call) const;

  const TraceIndex& index_;
  std::vector<StartupKind> kind_;     // by call
  std::vector<StartupRange> ranges_;  // by begin, none inside another on its thread
  std::vector<Step> steps_;
  std::vector<std::pair<Ns, Ns>> spans_;  // calls that are start-up, merged, by begin
  Ns launch_ = 0;                         // the median launch call that is not the first of its kernel
  struct Busy {
    Ns begin, end, before;  // `before`: busy time up to `begin`
  };
  std::vector<Busy> busy_;
};

}  // namespace foretrace::graph
