#pragma once
// What the parallel schemes share: collectives on communication lanes, the framework's CPU work around them, kernels that copy
// gradients, DDP's buckets. A scheme is a function `apply_…` in a file of this folder and a line in schemes.cpp.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "foretrace/whatif/parallel.hpp"
#include "hardware/collective.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::whatif {

class Builder {
 public:
  Builder(Model& model, Draft& draft, const Gradients& gradients, const Parallelism& how, const Cluster& cluster);

  Model& m;
  Draft& draft;
  const Gradients& gradients;
  const Parallelism& how;
  const Cluster& cluster;
  const host::HostCosts::Ddp& ddp;  ///< microseconds at speed 1; ns() gives the time in this step

  /// CPU time of the framework's work around communication.
  [[nodiscard]] Ns ns(double us, host::CpuPhase phase = host::CpuPhase::kBackward) const {
    return m.cpu_time(us, phase);
  }

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

  /// The trace is of several workers already: its own collectives now cost nothing, its copies and calls stay.
  [[nodiscard]] bool communicates() const { return communicates_; }

  /// A part of a GPU (MPS) has two hardware queues for all streams of a process: work of streams that share one starts in the
  /// order of its launches (seen in every trace of ranks on one GPU; a whole GPU has 8 to 128 queues).
  [[nodiscard]] bool few_queues() const { return few_queues_; }
  /// The first task of the main stream, or of each side stream (cuDNN's), that is launched behind `cpu` waits for `task`: for its
  /// end, or (`point` 0) for its start. `cpu` is a task of the step as it was, not of the draft.
  void hold_main_stream(std::uint32_t cpu, std::uint32_t task);
  void hold_side_streams(std::uint32_t cpu, std::uint32_t task, std::uint32_t point = graph::kWhole);

  /// The CPU waits until this GPU task is done.
  void sync(Place& at, const std::string& name);

  [[nodiscard]] Ns memory_ns(double bytes) const;
  /// Batch-norm statistics and the like that forward broadcasts: count and bytes.
  [[nodiscard]] std::pair<int, double> buffers() const;
  /// The place in front of the first forward operation.
  [[nodiscard]] Place before_forward() const;

 private:
  void hold_stream(std::uint32_t lane, std::uint32_t cpu, std::uint32_t task, std::uint32_t point);

  std::uint32_t lane_ = kNone;
  std::map<std::uint32_t, std::uint32_t> first_;  // by last step
  bool few_queues_ = false;
  double memory_share_ = 1;  // ranks on parts of one GPU share its memory's bandwidth
  bool communicates_ = false;
};

/// What fully sharded workers gather of a unit's parameters is called.
inline constexpr const char* kGatherOfUnit = "all-gather of a unit";

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
Compressed compress(const Model& model, const Gradients& gradients, const Parallelism& how, int workers,
                    const Bucket& bucket);

/// The mean of the largest of n draws from a normal distribution, in standard deviations: 0.56 of 2, 1.03 of 4, 3.97 of 16,384.
double expected_maximum(int n);
/// By how much the slowest of several GPUs takes longer than one: by what a GPU's steps differ by.
double slowest_of(const Model& model, int workers);
/// All computation takes `factor` times as long.
void slow_down(Draft& draft, const Graph& graph, double factor);

/// Collectives among GPUs that are `group` apart, one of each group: over the level between nodes where a group fills a node.
/// The cluster must outlive it.
std::shared_ptr<const hardware::CollectiveModel> across_groups(const Cluster& cluster, int group);

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
/// The update of a share: its kernels work on that part of the elements.
void share_update(Builder& b, double share);
/// Optimizer states live in this share of the memory, and so do gradients where those are divided too.
void share_memory(Builder& b, double share, bool gradients);

/// DDP's frame, shared by the schemes that reduce buckets: buffers are broadcast before forward, each gradient is copied into its
/// bucket, and behind backward each bucket is waited for.
class Buckets {
 public:
  explicit Buckets(Builder& builder);

  /// Starts the communication of a bucket at `at`, behind the copy of its last gradient, and returns the task to wait for.
  /// `launched`: the CPU task that makes this gradient.
  using Reduce = std::function<std::uint32_t(const Bucket& bucket, Place& at, std::uint32_t launched)>;
  /// Reduces each bucket once it is full, never before the one in front of it.
  void reduce(const Reduce& reduce);
  /// Waits for each bucket and copies its gradients back.
  void copy_back();
  /// The place behind backward, where the wait for the collectives goes.
  [[nodiscard]] Place behind_backward() const;
  [[nodiscard]] std::uint32_t last_reduced() const { return done_.back(); }

 private:
  void broadcast_buffers();
  void copy_in();

  Builder& b_;
  BucketPlan plan_;
  std::vector<Place> behind_;        // behind the copy of each gradient
  std::vector<std::uint32_t> done_;  // what to wait for, by bucket
};

}  // namespace foretrace::whatif
