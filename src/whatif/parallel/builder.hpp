#pragma once
// What the schemes share: collectives on communication lanes, the framework's CPU work around them, small kernels that copy
// gradients. Each scheme is one file beside this one.

#include <map>
#include <string>
#include <vector>

#include "foretrace/whatif/parallel.hpp"
#include "hardware/collective.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::whatif {

/// CPU time of DistributedDataParallel's own work, without a profiler: the host's figures (HostCosts) at this step's speed.
struct DdpCosts {
  Ns per_gradient = 0;    ///< hook, bookkeeping, the kernel that copies into the bucket
  Ns per_collective = 0;  ///< work object, stream hand-over, enqueueing in NCCL
  Ns per_copy_back = 0;   ///< the copy from the bucket into .grad
  Ns per_hook = 0;        ///< a communication hook: Python called for a bucket
  Ns per_wait = 0;        ///< making the main stream wait for a bucket
  Ns around_forward = 0;  ///< the wrapper's own call
  Ns buffers_fixed = 0;   ///< forward: flattening the buffers, two broadcasts
  Ns per_buffer = 0;      ///< forward: the copy back into a buffer
};

class Builder {
 public:
  Builder(Model& model, Draft& draft, const Gradients& gradients, const Parallelism& how, const Cluster& cluster);

  Model& m;
  Draft& draft;
  const Gradients& gradients;
  const Parallelism& how;
  const Cluster& cluster;
  const DdpCosts costs;

  /// The communication stream: its first lane, made on first use.
  std::uint32_t lane();
  std::uint32_t new_lane(const std::string& name);
  /// A collective at the end of a lane, known to the interference model. With Parallelism::ring_steps a task for each step of
  /// its ring; the id of the last stands for it.
  std::uint32_t collective(std::uint32_t lane, hardware::Collective kind, double bytes, const std::string& name);
  std::uint32_t collective(std::uint32_t lane, hardware::Collective kind, double bytes, int ranks,
                           const std::string& name, double slower = 1);
  std::uint32_t transfer(std::uint32_t lane, const hardware::CollectiveCost& cost, const std::string& name);
  /// The first step of a collective; the task itself where it has one only.
  [[nodiscard]] std::uint32_t first_of(std::uint32_t collective) const;
  /// All its steps.
  [[nodiscard]] Selection steps_of(std::uint32_t collective) const;
  /// Equal parts of at most Parallelism::slice_mb; one part where nothing is said.
  [[nodiscard]] std::vector<double> slices(double bytes) const;
  /// A kernel that moves `bytes` through memory, launched behind `at`; moves `at` behind it.
  std::uint32_t kernel(Place& at, const std::string& name, double bytes, Ns cpu_cost, Phase phase, int launches = 1);
  /// CPU time behind `at`.
  std::uint32_t cpu(Place& at, const std::string& name, Ns cost, Phase phase);
  /// The collective starts behind this CPU task and, where there is one, this GPU task.
  void start_behind(std::uint32_t collective, const Place& at);
  /// The next kernel inserted at a place waits for a collective: makes `task` wait.
  void wait_for(std::uint32_t task, std::uint32_t collective);

  /// The trace is of several workers already: its own collectives cost nothing from now on, its copies and calls stay.
  [[nodiscard]] bool communicates() const { return communicates_; }

  /// A part of a GPU (MPS) has two hardware queues for all streams of a process: work of streams that share one starts in the
  /// order of its launches (seen in every trace of ranks on one GPU; a whole GPU has 8 to 128 queues).
  [[nodiscard]] bool few_queues() const { return few_queues_; }
  /// `cpu` and `launched_behind` below are tasks of the step as it was, not of the draft.
  /// Tasks of the side streams (cuDNN's) launched behind `cpu` do not start before `collective` has started.
  void hold_side_streams(std::uint32_t cpu, std::uint32_t collective);
  /// Tasks of the side streams launched behind `cpu` do not start before `task` has ended.
  void hold_side_streams_until(std::uint32_t cpu, std::uint32_t task);
  /// The next task of the main stream launched behind this place does not start before `task` has ended.
  void hold_main_stream(std::uint32_t launched_behind, std::uint32_t task);

  /// The CPU waits until this GPU task is done.
  void sync(Place& at, const std::string& name);

  [[nodiscard]] Ns memory_ns(double bytes) const;
  /// Batch-norm statistics and the like that forward broadcasts: count and bytes.
  [[nodiscard]] std::pair<int, double> buffers() const;
  /// The place in front of the first forward operation.
  [[nodiscard]] Place before_forward() const;

 private:
  void hold_side_streams(std::uint32_t cpu, std::uint32_t task, std::uint32_t point);

  std::uint32_t lane_ = kNone;
  std::map<std::uint32_t, std::uint32_t> first_;  // by last step
  bool few_queues_ = false;
  double memory_share_ = 1;  // ranks on parts of one GPU share its memory's bandwidth
  bool communicates_ = false;
};

/// The buckets asked for. An explicit plan must be one of these gradients.
BucketPlan plan_of(const Gradients& gradients, const Parallelism& how);

/// What a compression makes of a bucket: bytes on the wire, and what it costs before and behind the collectives.
struct Compressed {
  std::vector<double> messages;  ///< bytes of each collective, one behind the other
  double before_bytes = 0;       ///< moved through memory before the first, all kernels together
  double between_bytes = 0;      ///< between two of them
  double behind_bytes = 0;       ///< behind the last
  int before_kernels = 0, between_kernels = 0, behind_kernels = 0;
  Ns cpu = 0;          ///< of the hook's own work, without a profiler
  bool waits = false;  ///< the hook reads something back from the GPU: a size, or a number it writes
  double slower = 1;   ///< the collective's time against one of FP32 sums of the same bytes
  hardware::Collective kind = hardware::Collective::kAllReduce;
};
Compressed compress(const Builder& builder, const Bucket& bucket);

// The schemes.
Status apply_ddp(Builder& b);
Status apply_fsdp(Builder& b);
Status apply_zero1(Builder& b);
Status apply_zero2(Builder& b);
Status apply_ps(Builder& b);
Status apply_p3(Builder& b);
Status apply_blueconnect(Builder& b);
Status apply_horovod(Builder& b);

// Parts of schemes that divide what each worker keeps.
/// The update of a share: its kernels work on 1/N of the elements.
void share_update(Builder& b);
/// States live in 1/N of the memory, and so do gradients and parameters where those are divided too; of these `largest_unit` twice whole.
void share_memory(Builder& b, bool gradients, bool parameters, std::int64_t largest_unit);

// Parts of DDP that other schemes use too.
void broadcast_buffers(Builder& b);
/// Copies each gradient into its bucket; the place behind each copy.
std::vector<Place> gradients_into_buckets(Builder& b);
/// Waits for each bucket and copies it back.
void copy_back(Builder& b, Place at, const BucketPlan& plan, const std::vector<std::uint32_t>& done);
/// The place behind backward, where the wait for the collectives goes.
Place behind_backward(Builder& b, const std::vector<Place>& behind);

}  // namespace foretrace::whatif
