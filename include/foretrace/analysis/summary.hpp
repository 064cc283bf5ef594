#pragma once
// summary: where the time of one step goes.
//
//   trace::Steps steps = trace::find_steps(trace);
//   Result<SummaryReport> report = summarise(trace, steps);      // the median step
//
// Phases, layers and operations come from the step's graph: work belongs to the step whose CPU launched it, even where the
// GPU ran it later; GPU work without a known launch belongs to the step in which it starts. CPU time is work: waits are not
// part of it, and time no operation covers goes with the operation that follows. Breakdown, critical path and bounds come
// from the graph's simulation. Lanes are looked at over the step's own range. All figures are in ns here and in ms in text
// and JSON.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/analysis/replay.hpp"
#include "foretrace/base/result.hpp"
#include "foretrace/base/types.hpp"
#include "foretrace/host/measured_step.hpp"
#include "foretrace/host/unprofiled.hpp"
#include "foretrace/memory/memory.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::analysis {

struct SummaryOptions {
  std::optional<std::int64_t> step = {};  ///< the number in ProfilerStep#N; default the median step
  std::optional<double> samples = {};     ///< samples a step works on, for samples per second; else as the shapes say
  host::UserMeasurements measurements = {};
};

/// Where the time of a simulated step goes.
struct SimulatedParts {
  simulate::Breakdown breakdown;
  simulate::LowerBounds bounds;

  /// Why tasks of the critical path could not start earlier, and how long the path stood still for it (latencies, gaps).
  struct Reason {
    std::string name;  ///< a DependencyKind: "launch"
    std::uint64_t count = 0;
    Ns wait = 0;
  };
  std::vector<Reason> reasons;  ///< most frequent first
  struct PathLayer {
    std::string name;
    Ns time = 0;
    std::uint64_t tasks = 0;
  };
  std::vector<PathLayer> path_layers;  ///< most time on the path first; work of no layer by phase, "(forward)"
  struct PathTask {
    std::uint32_t task = 0;
    std::string name, kind, lane, layer, phase;
    Ns time = 0;
  };
  std::vector<PathTask> path_tasks;  ///< the longest ones, at most kPathTasks
  std::uint64_t path_length = 0;     ///< tasks on the path
  static constexpr std::size_t kPathTasks = 100;
};

/// What the simulation of a step says; its parts are those of the step as traced.
struct SimulatedStep : SimulatedParts {
  Ns replayed = 0;
  double error_pct = 0;      ///< of the replay against the trace
  std::optional<Ns> period;  ///< when the GPU lags behind the CPU: the replay is compared with this instead
  host::Unprofiled unprofiled;
  SimulatedParts without_profiler;  ///< of the step without the profiler
  std::optional<Ns> measured;
  Ns startup = 0;                ///< start-up work that was taken out of a cold step
  std::string steadiness;        ///< what is not steady about the step; empty: nothing
  std::string measured_refused;  ///< why the recorder's measurement is not used; empty when it is, or there is none
  bool outlasts = false;         ///< the GPU still works when the range ends, and no later step shows for how long
  StepVerdict verdict;
};

/// Multiplications in FLOP: matrix products, convolutions, attention and recurrent layers, two per multiply-add, as
/// torch.utils.flop_counter counts them. `model` leaves out what runs a second time (activation checkpointing).
struct FlopCount {
  double model = 0, recomputed = 0;
  /// The same as time, in ns: each operation at the dense peak of the precision it ran in. Nothing when a peak is unknown.
  std::optional<double> model_at_peak = 0.0, recomputed_at_peak = 0.0;

  [[nodiscard]] std::optional<double> achieved_tflops(Ns time) const;
  /// Model FLOPs utilisation, 0 to 1: time at the peak over `time` (of all GPUs together).
  [[nodiscard]] std::optional<double> mfu(Ns time) const;
  /// Hardware FLOPs utilisation: the same with what runs a second time.
  [[nodiscard]] std::optional<double> hfu(Ns time) const;
  /// The peak of these operations together, TFLOP/s.
  [[nodiscard]] std::optional<double> peak_tflops() const;
};

/// What a step works on.
struct StepBatch {
  std::optional<double> samples, tokens;
  std::string source;  ///< "token ids of 8 x 512", "--batch"
};

struct SummaryReport {
  std::string file;
  std::string format;
  std::string device;  ///< name of the GPU that worked most; empty when unknown
  std::optional<std::int64_t> rank, world_size;

  struct StepRow {
    std::string name;
    std::int64_t number = 0;
    Ns duration = 0;
  };
  std::vector<StepRow> steps;
  std::string step_kind;  ///< what the step does: "training", "evaluation", "prefill", "decode", "diffusion", "unknown"
  std::string step_source;  ///< "ProfilerStep ranges"
  std::size_t chosen = 0;   ///< index into steps
  bool chosen_by_user = false;
  std::optional<double> samples_per_s;             ///< as traced
  std::optional<double> unprofiled_samples_per_s;  ///< without the profiler
  std::optional<double> tokens_per_s;              ///< without the profiler
  std::optional<StepBatch> batch;                  ///< nothing where neither the user nor the shapes say it

  struct LaneUse {
    std::string label;
    std::string kind;          ///< "thread", "gpu" (all streams of a device), "stream"
    std::uint64_t events = 0;  ///< events that overlap the step
    Ns busy = 0;               ///< threads: inside operations or runtime calls; GPU: at least one kernel, copy or fill
    Ns idle = 0;               ///< the rest of the step
    Ns waiting = 0;            ///< threads: part of busy spent in synchronising calls
  };
  std::vector<LaneUse> lanes;  ///< threads, then GPUs, each followed by its streams
  Ns gpu_time = 0;             ///< sum over the step's kernels, copies and fills; may exceed the step
  Ns gpu_busy = 0;             ///< within the step, some GPU was working
  std::uint64_t gpu_events = 0;
  Ns gpu_time_after_step = 0;  ///< part of gpu_time that ran after the step's range had ended

  struct PhaseRow {
    std::string name;  ///< forward, backward, optimizer, communication, data, other
    Ns gpu_time = 0;
    Ns cpu_time = 0;  ///< work on all threads
    std::uint64_t gpu_events = 0;
    FlopCount flops;
  };
  std::vector<PhaseRow> phases;

  struct LayerRow {
    std::string name;                         ///< "layer1.0.conv1"; "(optimizer)" and the like for work of no layer
    std::string type;                         ///< "Conv2d"; empty for work of no layer
    bool synthetic = false;                   ///< nothing in the trace names it: made from an operation and its shape
    Ns forward = 0, backward = 0, other = 0;  ///< GPU time
    Ns cpu_time = 0;
    std::uint64_t gpu_events = 0;
    FlopCount flops;
    [[nodiscard]] Ns gpu_time() const { return forward + backward + other; }
  };
  std::vector<LayerRow> layers;  ///< most GPU time first
  std::size_t named_layers = 0;  ///< those the trace names
  double layer_coverage = 0;     ///< fraction of GPU time that belongs to some layer
  double named_coverage = 0;     ///< to one the trace names

  struct OpRow {
    std::string name;  ///< "aten::mm"; "(cudaGraphLaunch)" for a runtime call outside any operation
    std::uint64_t calls = 0;
    Ns gpu_time = 0;  ///< work it launched itself, not through an operation inside it
    Ns cpu_time = 0;  ///< without operations inside it, with the runtime calls it makes itself
    std::uint64_t gpu_events = 0;
  };
  std::vector<OpRow> ops;  ///< most GPU time first, then most CPU time

  struct KernelRow {
    std::string name;
    std::string kind;  ///< "kernel", "gpu_memcpy", "gpu_memset"
    std::uint64_t launches = 0;
    Ns total = 0;
  };
  std::vector<KernelRow> kernels;  ///< most time first

  struct MemoryPeak {
    std::int64_t device = 0;
    std::int64_t allocated_bytes = 0;
    std::optional<std::int64_t> reserved_bytes;  ///< at the same moment
    Ns at = 0;                                   ///< since the step's start
    /// What the model of the allocator says would be reserved for these steps; where one GPU's events are in the step.
    std::optional<std::int64_t> replayed_reserved;
    std::string op, layer, phase;              ///< innermost operation running then; empty when none
    std::optional<memory::Composition> parts;  ///< where one GPU's events are in the step
  };
  std::vector<MemoryPeak> memory;  ///< one per device with allocator events in the step

  std::optional<FlopCount> flops;  ///< of the step; also of phases and layers
  std::string no_flops;            ///< why they are not known; empty when they are
  std::string no_peak;             ///< why the peak is not known; empty when it is
  std::size_t gpus = 1;            ///< that multiply: the peak is that of all of them
  /// The time that utilisation is of: the step without the profiler, on every GPU.
  [[nodiscard]] Ns gpu_time_offered() const {
    return simulated ? simulated->unprofiled.step * static_cast<Ns>(gpus) : 0;
  }

  std::optional<SimulatedStep> simulated;
  std::string no_graph;  ///< why there is no simulation, no phase, layer and operation; empty when there is one

  [[nodiscard]] Ns step_duration() const { return steps.empty() ? 0 : steps[chosen].duration; }
};

/// Fails when the step asked for does not exist (kUsage), or when it holds nothing to summarise (kDeclined).
Result<SummaryReport> summarise(const trace::Trace& trace, const trace::Steps& steps,
                                const SummaryOptions& options = {});
/// The same of a step that is open already.
Result<SummaryReport> summarise(const trace::Trace& trace, const OpenStep& step, const SummaryOptions& options);

}  // namespace foretrace::analysis
