#pragma once
// What things cost the CPU of a host: what a profiler adds to a trace, and what operations cost without one.
//
//   HostCosts::built_in().profiler.op_us;      // 1.43: microseconds to record one operation
//   HostCosts::find("xeon-h200");              // a built-in host by name
//   HostCosts::read("our-node.csv")->speed;    // what `foretrace calibrate` measured
//
// Speed is a factor of time relative to the default host at its fastest: 1 is as fast, 2 takes twice as long. Hosts change their
// speed within seconds (docs/internals/cpu.md). A trace shows the speed it was recorded at: common, short calls take longer.
// Each figure is a line "figure,value,sample,spread" of a CSV file (src/host/hosts, written by tools/fit_host.py). Times are in
// microseconds at speed 1, without the profiler unless stated otherwise.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/simulate/simulate.hpp"

namespace foretrace::host {

struct HostCosts {
  std::string name;  ///< of the file: "xeon-h200"

  double default_speed = 1;   ///< of a trace that does not show its speed
  double speed_spread = 0;    ///< of the logarithm of traces' speeds
  double speed_exponent = 1;  ///< the step's log speed moves by this much of the trace's; 1 on a host of constant speed
  std::optional<double> speed;  ///< without the profiler, where it was measured: the trace's speed is then ignored

  /// Calls that every step makes, as a profiler shows them: they reveal the speed of a trace.
  struct Reference {
    double launch_call_us = 0;   ///< launching a kernel
    double launch_exponent = 1;  ///< its log time moves by this much of log speed: the rest waits for the device
    double empty_us = 0;         ///< aten::empty
    double view_us = 0;          ///< a view of a tensor called from Python, without the profiler: the recorder's probe
  } reference;

  /// What recording one event costs.
  struct Profiler {
    double op_us = 0;
    double nvtx_us = 0;           ///< an operation recorded as an NVTX range
    double call_us = 0;           ///< a runtime call that gives the GPU work
    double injected_call_us = 0;  ///< the same where the injection library listens
    double short_call_us = 0;     ///< any other runtime call: events, stream waits, attributes
    double layer_us = 0;          ///< the recorder's range around a layer, with the hooks that make it
    double frame_us = 0;          ///< a Python function
    /// The program also runs slower under a profiler. This share of its time, less recording, remains without it.
    double remaining_share = 1;
  } profiler;

  /// A launch and all CPU time around it, by phase, at the speeds steps usually have; and how much the number of launches counts
  /// relative to the traced time of a phase whose launches are alike (a weight in logarithms).
  struct Launches {
    std::array<double, 3> us = {};
    double backward_weight = 0, update_weight = 0, compiled_weight = 0;
  } launches;

  struct Eager {
    double op_us = 0;      ///< an operation that launches a kernel: dispatch, allocation, launch
    double cast_us = 0;    ///< autocast's cast of a tensor, with the operations around it
    double scaler_us = 0;  ///< scale, step and update of a GradScaler, without the launches that unscale
    double node_us = 0;    ///< a node of the autograd graph, without the operations it runs
    double rnn_weight_us =
        0;  ///< autocast on a weight of a recurrent layer, in addition to its cast: its layout is rebuilt
    double hooked_copy_us = 0;  ///< a saved tensor that a hook copies to the host or back
    /// Calling a module. The profiler records nothing there, so it keeps its time. Traces without layer ranges do not show how
    /// many modules there are: `modules_per_op` times the operations of the forward pass then stand for them.
    double module_us = 0, modules_per_op = 0;
  } eager;

  /// A checkpointed block without its second forward pass; the reentrant implementation costs `reentrant_share` of that.
  struct Checkpoint {
    double forward_us = 0, backward_us = 0, reentrant_share = 1;
  } checkpoint;

  /// Python's bookkeeping for each tensor in an optimizer's update.
  struct Update {
    double fused_tensor_us = 0;
    double foreach_tensor_us = 0;  ///< with Adam's states
    double list_tensor_us = 0;     ///< foreach, without them
  } update;

  struct Compiled {
    double call_us = 0;    ///< a pass of a compiled model: guards, arguments, autograd's node
    double launch_us = 0;  ///< a launch from generated code, with the Python between launches
  } compiled;

  struct CudaGraph {
    double call_us = 0, node_us = 0;  ///< launching a graph, and each node of it
  } cuda_graph;

  /// Code of the user's own: an autograd function, each tensor it is given, and a Triton kernel launched in it, with the memory
  /// for what the kernel writes. A module played from a CUDA graph is such a function, given all its parameters.
  struct Python {
    double function_us = 0, function_tensor_us = 0, launch_us = 0;
    [[nodiscard]] double function(double tensors, double launches = 0) const {
      return function_us + function_tensor_us * tensors + launch_us * launches;
    }
  } python;

  struct Loader {
    double take_batch_us = 0;                      ///< a batch that is ready, from the pinning thread's queue
    double open_batch_us = 0, open_tensor_us = 0;  ///< from a worker process, without pinning
    double copy_call_us = 0;                       ///< queueing a copy from pinned memory to the GPU
    double slower_with_workers = 1;  ///< CPU time of the process that trains, with worker processes over without
  } loader;

  /// DistributedDataParallel.
  struct Ddp {
    double gradient_us = 0;                ///< the hook of a gradient, with the copy into its bucket
    double copy_back_us = 0;               ///< from the bucket into .grad
    double collective_us = 0;              ///< calling a bucket's collective
    double wait_us = 0;                    ///< making the main stream wait for a bucket
    double hook_us = 0;                    ///< a communication hook written in Python, per bucket
    double forward_us = 0;                 ///< the wrapper's own call
    double buffers_us = 0, buffer_us = 0;  ///< broadcasting the buffers, and copying each back
  } ddp;

  /// Communication hooks that compress gradients.
  struct Compression {
    double op_us = 0;  ///< an operation of a hook written in PyTorch
    double powersgd_matrix_us = 0, powersgd_vector_us = 0;
  } compression;

  /// fully_shard's hooks around a unit (a module whose parameters are gathered together), and for each tensor in it.
  struct Fsdp {
    double gather_us = 0, gather_tensor_us = 0;  ///< copy in, streams and events, the all-gather's call
    double copy_us = 0, copy_tensor_us = 0;      ///< waiting for it, views, copy out
    double reduce_us = 0, reduce_tensor_us = 0;  ///< copy in, the reduce-scatter's call, views of gradients
    double fill_share = 0;                       ///< of a reduction's hook, until its input is copied in
    double forward_us = 0, backward_us = 0;      ///< everything else around a unit's forward and backward
    double update_tensor_us = 0;                 ///< unwrapping a sharded tensor in the update
    /// FullyShardedDataParallel keeps a unit as one flat tensor: its share of a unit's and of a tensor's time.
    double flat_unit_share = 1, flat_tensor_share = 1;
  } fsdp;

  /// Standard deviations of log CPU time.
  struct Uncertainty {
    double shared = 0;                 ///< what all phases have in common
    std::array<double, 3> phase = {};  ///< what each has of its own
    double loading = 0;                ///< loading data in the main thread, from what the trace shows
    double run_to_run = 0;             ///< a phase, between processes that do the same
  } uncertainty;

  /// The default host: what is used where nothing is known about the user's.
  static const HostCosts& built_in();
  /// A built-in host by name.
  static std::optional<HostCosts> find(std::string_view name);
  /// Figures that a file does not have are the default host's.
  static Result<HostCosts> parse(std::string_view csv, std::string_view file);
  static Result<HostCosts> read(const std::string& path);
};

// The step as it runs without the profiler. A profiler adds little to the GPU's time and up to 200 % to the CPU's: every event
// it records takes time, and the rest runs slower meanwhile. The host's own speed varies as well, between runs and within one.
//
// The prior, for each phase: the trace shows the speed it was recorded at (short, common calls take longer on a slow host).
// Recording its events cost a known time at that speed, which is subtracted where they were recorded. A known share of the rest
// is the step's own, at the speed hosts usually have (HostCosts, fitted by tools/fit_host.py). Where the recorder timed the
// phases without the profiler, its times count as well.
// Calibration: a measured step moves the prior as little as possible. What it does not determine (a GPU-bound step says nothing
// about the CPU) stays as uncertain as before, and the band shows that.

/// Phases of CPU time that are scaled together.
enum class CpuPhase : std::uint8_t { kForward, kBackward, kOptimizer };
inline constexpr std::size_t kCpuPhases = 3;

/// Parts of a step whose times are uncertain independently: the CPU phases, the GPU, and loading data, in the main thread or by workers. No
/// profiler slows loading, but storage and decoding take a time of their own in every step.
inline constexpr std::size_t kGpuPart = kCpuPhases, kLoadingPart = kCpuPhases + 1, kStepParts = kCpuPhases + 2;

/// What is known about the CPU before the step is looked at.
struct CpuPrior {
  HostCosts host = HostCosts::built_in();
  /// The share of a phase's traced CPU time that it takes without the profiler, where the recorder timed both.
  std::array<std::optional<double>, kCpuPhases> timed_share = {};
  double timed_sigma = 0;                                           ///< standard deviation of log time of such a phase
  const trace::Latencies* latencies = &trace::default_latencies();  ///< of the step's GPU
};

/// How a graph's costs change without the profiler: recording is subtracted at `profiler` times the cost in HostCosts (0: not
/// at all), then the rest is multiplied.
struct CpuFactors {
  std::array<double, kCpuPhases> phase = {1, 1, 1};
  double gpu = 1;
  double loading = 1;
  std::array<double, kCpuPhases> profiler = {0, 0, 0};
};

struct Unprofiled {
  CpuFactors factors;
  std::array<double, kCpuPhases> speed = {1, 1, 1};  ///< of the step's CPU (see HostCosts): for work that is inserted
  Ns step = 0;
  Ns low = 0, high = 0;  ///< 10th and 90th percentile
  bool calibrated = false;
  std::array<double, kStepParts> sigma = {};  ///< of log time that remains, by part of the step
  /// Log of how much longer a phase's CPU tasks take if what was subtracted as the profiler's is the program's own.
  std::array<double, kCpuPhases> slower = {};
  std::string origin;  ///< "prior", "measured step", "recorder"
};

/// The phase a CPU task is scaled with.
CpuPhase cpu_phase(const graph::Graph& graph, std::size_t task);

/// The part of the step a task belongs to: a CPU phase, kGpuPart or kLoadingPart.
std::size_t step_part(const graph::Graph& graph, std::size_t task);

/// The graph with factors applied: CPU costs, hand-over, join and return lags, GPU costs.
graph::Graph apply(const graph::Graph& graph, const CpuFactors& factors, const CpuPrior& prior);

/// The speed each phase was traced at, read from its short calls; a phase without such calls has the speed of the others.
std::array<double, kCpuPhases> traced_speeds(const graph::Graph& graph, const HostCosts& host);

/// The speed of a step whose trace shows `traced`.
double step_speed(double traced, const HostCosts& host);

/// Factors of the prior alone.
CpuFactors prior_factors(const graph::Graph& graph, const CpuPrior& prior);

/// The step without the profiler. `measured`: the real step's time where known.
Unprofiled unprofiled(const graph::Graph& graph, std::optional<Ns> measured, const CpuPrior& prior = {});

}  // namespace foretrace::host
