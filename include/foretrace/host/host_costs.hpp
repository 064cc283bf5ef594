#pragma once
// What things cost the CPU on a kind of host: with a profiler, from which its traces are understood, and without one.
//
//   HostCosts::built_in().event_op_us;         // 1.42 us: what recording an operation costs
//   HostCosts::read("our-node.csv")->speed;    // what `foretrace calibrate` measured there
//
// A host's speed is a factor of time against the host of the built-in figures at its fastest: 1 is as fast, 2 takes twice as
// long. Hosts change theirs within seconds (docs/internals/cpu.md), and a trace shows its own: common, short calls take longer.
// Every figure is a line "figure,value,sample,spread" of a CSV file (src/host/hosts, written by tools/fit_host.py).

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "foretrace/base/result.hpp"

namespace foretrace::host {

struct HostCosts {
  std::string name;  ///< of the file: "xeon-h200"

  // How a trace shows the speed it was made at: µs of calls every step has, as the profiler shows them, at speed 1.
  double launch_call_us = 0;  ///< a launch of a kernel;
  double launch_follows = 1;  ///< its log time moves by this much of log speed: the rest waits for the device
  double empty_us = 0;        ///< aten::empty
  double probe_view_us = 0;   ///< a view of a tensor called from Python, without the profiler: the recorder's probe
  double usual_speed = 1;     ///< of a trace that does not show it

  // What a profiler adds at speed 1, µs for each event it records.
  double event_op_us = 0;
  double event_nvtx_us = 0;           ///< an operation that PyTorch makes an NVTX range, text and all, and CUPTI keeps
  double event_call_us = 0;           ///< a runtime call that gives the GPU work: with what the profiler keeps of that
  double event_injected_call_us = 0;  ///< the same where the injection library listens
  double event_short_call_us = 0;     ///< any other: an event, a stream's wait, an attribute
  double event_layer_us = 0;          ///< a recorder's range around a layer, with the hooks that make it
  double event_frame_us = 0;          ///< a Python function

  /// Of what is left of a step's CPU time at speed 1: what the step takes at the speeds steps have.
  double left = 1;
  /// A module's call in Python, at speed 1: a profiler writes nothing down in it, so it stays as it is. A trace without ranges of
  /// layers does not show how many there are; `modules_of_op` of its forward operations then stand for them.
  double module_us = 0, modules_of_op = 0;
  /// How far the number of launches is believed beside the traced time of a phase that launches one thing like the other: in
  /// logarithms, by what each is off for networks it was not fitted on.
  double counted_backward = 0, counted_update = 0, counted_compiled = 0;
  /// How far the step's speed follows the trace's, in logarithms: 1 on a host that keeps its speed.
  double follows = 1;
  /// The host's speed without the profiler where somebody measured it; the trace's then says nothing more about it.
  std::optional<double> speed;

  // A launch and all the CPU does around it, by phase, µs at the speeds steps have: for steps that launch too little to tell.
  std::array<double, 3> launch_us = {};

  // What changes of a step add, µs at speed 1, without the profiler.
  double op_us = 0;      ///< an operation that launches a kernel: dispatch, allocation, launch
  double cast_us = 0;    ///< autocast's cast of a tensor: the operations around it as well
  double scaler_us = 0;  ///< scale, step and update of a GradScaler, beside the launches that unscale
  double node_us = 0;    ///< a node of the autograd graph, beside the operations it runs
  /// A weight of a recurrent layer under autocast, beside its cast: all are laid out anew in every pass, and cuDNN is asked where.
  double rnn_weight_us = 0;
  /// A checkpointed block beside its second forward: contexts, random-number state, hooks of saved tensors; in backward the
  /// exception that ends it as well. Of the reentrant kind `reentrant_share` of that.
  double checkpoint_forward_us = 0, checkpoint_backward_us = 0, reentrant_share = 1;
  double fused_tensor_us = 0;    ///< a tensor in the update by one kernel: Python's bookkeeping
  double foreach_tensor_us = 0;  ///< a tensor in an update over lists: the same, states of Adam
  double list_tensor_us = 0;     ///< a tensor in an update over lists without states of Adam

  double compiled_call_us = 0;    ///< a pass of a compiled model: guards, arguments, autograd's node
  double compiled_launch_us = 0;  ///< a launch from its generated code, Python between them included

  /// A CUDA graph's launch, and each node of it. A module played from one is a function of its own to autograd: a call of it in
  /// each pass, and each parameter it hands on.
  double graph_call_us = 0, graph_node_us = 0;
  double function_us = 0, function_tensor_us = 0;

  /// A tensor that a hook sends to the host or fetches back: the hook, memory for it, the call that copies.
  double hooked_copy_us = 0;
  double take_batch_us = 0;  ///< a batch that is ready, from the queue of a data loader's pinning thread;
  double open_batch_us = 0,
         open_tensor_us = 0;  ///< without one, as a worker process hands it and each tensor of it over
  double copy_call_us = 0;    ///< a copy from pinned memory to the GPU, queued

  // DistributedDataParallel: for each gradient its hook with the copy into the bucket, and the copy back; for each bucket the call
  // of its collective and the wait for it; what a communication hook written in Python adds to a bucket; around forward; the
  // broadcast of buffers, and the copy back of each.
  double ddp_gradient_us = 0, ddp_copy_back_us = 0;
  double ddp_collective_us = 0, ddp_wait_us = 0, ddp_hook_us = 0;
  double ddp_forward_us = 0, ddp_buffers_us = 0, ddp_buffer_us = 0;
  /// An operation of a communication hook written in PyTorch; PowerSGD's for a matrix and for a vector.
  double hook_op_us = 0, powersgd_matrix_us = 0, powersgd_vector_us = 0;

  // fully_shard's hooks around a unit (a module whose parameters are gathered together), and for each tensor of it.
  double shard_gather_us = 0, shard_gather_tensor_us = 0;  ///< copy in, streams and events, the all-gather's call
  double shard_copy_us = 0, shard_copy_tensor_us = 0;      ///< waiting for it, views, copy out
  double shard_reduce_us = 0, shard_reduce_tensor_us = 0;  ///< copy in, the reduce-scatter's call, views of gradients
  double shard_fill_share = 0;                             ///< of a reduction's hook, until its input is copied in
  double shard_forward_us = 0, shard_backward_us = 0;      ///< all else around its forward and its backward
  double shard_update_tensor_us = 0;                       ///< a sharded tensor in the update, unwrapped in Python
  /// Of FullyShardedDataParallel, which keeps a unit as one flat tensor: of a unit's and of a tensor's time.
  double flat_unit_share = 1, flat_tensor_share = 1;

  /// Of log CPU time: what all phases share, and each its own beside it.
  double sigma = 0;
  std::array<double, 3> sigma_phase = {};
  /// A host's speed when it was timed is not the one the next run meets: of log time of a phase, between processes that do the same. The
  /// main thread's phases move together, the backward pass, on another core, by itself.
  double moment = 0;

  static const HostCosts& built_in();
  /// Figures that a file does not have are the built-in ones.
  static Result<HostCosts> parse(std::string_view csv, std::string_view file);
  static Result<HostCosts> read(const std::string& path);
};

}  // namespace foretrace::host
