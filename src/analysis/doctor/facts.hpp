#pragma once
// Facts: what doctor's checks read about a trace, collected in a few passes over its columns.

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "foretrace/analysis/doctor.hpp"
#include "foretrace/base/types.hpp"
#include "foretrace/trace/trace.hpp"
#include "graph/step_kind.hpp"

namespace foretrace::analysis {

struct Facts {
  const trace::Trace* trace = nullptr;
  const trace::Steps* steps = nullptr;

  std::array<std::uint64_t, static_cast<std::size_t>(trace::EventKind::kCount)> kinds{};
  [[nodiscard]] std::uint64_t of(trace::EventKind kind) const { return kinds[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] std::uint64_t gpu_work() const {
    return of(trace::EventKind::kKernel) + of(trace::EventKind::kMemcpy) + of(trace::EventKind::kMemset);
  }

  /// There is no other to choose.
  [[nodiscard]] bool only_step() const { return steps->steps.size() <= 1; }

  Ns first = INT64_MAX, last = INT64_MIN;  ///< of events with a time
  std::set<std::int64_t> processes;        ///< with operations or runtime calls
  std::map<std::int64_t, std::uint64_t> device_work;
  std::uint64_t cpu_threads = 0, gpu_streams = 0, other_lanes = 0;  ///< lanes with events
  std::uint64_t working_streams = 0;                                ///< lanes with GPU work

  std::uint64_t ops_with_shapes = 0;
  std::uint64_t ops_with_sequence = 0;
  std::uint64_t fwdbwd_flows = 0;
  std::uint64_t backward_nodes = 0;
  std::uint64_t optimizer_ranges = 0;
  std::uint64_t layer_ranges = 0, module_frames = 0;
  std::uint64_t work_with_external_id = 0;
  std::uint64_t kernels_without_geometry = 0;   ///< no grid and block
  std::uint64_t kernels_without_registers = 0;  ///< no register count: ROCm, very old traces
  std::uint64_t collectives = 0, collectives_without_size = 0;
  std::uint64_t stream_wait_calls = 0;  ///< cudaStreamWaitEvent
  std::uint64_t unresolved_waits = 0;   ///< Stream Wait Event records that name no event record
  Ns overhead = 0;                      ///< the profiler's own stalls, as far as they fall into steps
  bool whole_microseconds = false;      ///< no GPU event has a finer time

  std::uint64_t orphans = 0;  ///< GPU work without a recorded launch

  std::uint64_t compiled_work = 0;          ///< kernels whose compiler says what they compute
  std::vector<signed char> compiled_tuple;  ///< by argument tuple: 1, 0, -1 not looked at
  [[nodiscard]] bool compiled() const { return compiled_work * 2 > gpu_work(); }
  std::uint64_t whole_graphs = 0;            ///< launches of graphs recorded as one piece of work
  std::uint64_t graph_work = 0;              ///< launched by CUDA graphs
  std::uint64_t duplicate_correlations = 0;  ///< correlation ids used by more than one call
  std::uint64_t before_launch = 0;           ///< GPU work that starts before its launch call does
  Ns worst_before_launch = 0;
  std::vector<std::uint64_t> step_launches, step_launches_without_work;  ///< of kernels and graphs, by step

  std::uint64_t thread_overlaps = 0, stream_overlaps = 0;  ///< events that overlap without nesting
  Ns worst_overlap = 0;

  bool from_export = false;  ///< `foretrace export` wrote the file; its graph is inside
  std::optional<DoctorReport::Replay> replay;
  graph::StepNature nature;                               ///< of the median step
  std::vector<bool> cold;                                 ///< by step: start-up work makes up a notable part of it
  std::string no_replay;                                  ///< why there is none
  bool step_on_gpu = false;                               ///< the replayed step has GPU work
  std::string no_predictions;                             ///< why what-ifs decline it; empty when they answer
  std::string measured_refused;                           ///< why the recorder's measured step is not used
  Ns gpu_time = 0;                                        ///< of the replayed step
  std::vector<std::pair<std::string, Ns>> without_model;  ///< kernels of it in no family, longest first
};

Facts gather_facts(const trace::Trace& trace, const trace::Steps& steps);

}  // namespace foretrace::analysis
