#pragma once
// From one worker's step to the step of N: gradients in the order backward makes them, buckets as PyTorch builds them, and
// the schemes that reduce them. Everything a search varies is a plain value here.
//
//   Gradients g = *find_gradients(model);
//   Parallelism how;                     how.buckets = {{0, 80}, {81, 160}};      // or by size, as PyTorch fills them
//   Prediction p = predict(model, {parallel_use(how, collectives, 16, 8)}, measured);      p.step;  p.exposed_communication;

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/hardware/device.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::hardware {
class CollectiveModel;
}

namespace foretrace::whatif {

/// The gradient of one parameter.
struct Gradient {
  std::int64_t elements = 0;
  std::int64_t rows = 0;                 ///< its first dimension when it has several, 0 for vectors and where unknown
  std::uint32_t cpu = kNone;             ///< the CPU task behind which the framework knows that it is being computed
  std::uint32_t gpu = kNone;             ///< the task of the main stream launched last before that
  std::vector<std::uint32_t> side = {};  ///< tasks of other streams it also waits for
};

struct Gradients {
  std::vector<Gradient> list;  ///< in the order they become ready
  std::int64_t elements = 0;
  std::int64_t bytes_per_element = 4;
  std::uint32_t stream = 0;            ///< graph lane of the main stream
  std::uint32_t backward_cpu = kNone;  ///< the last CPU task of backward on its thread
  std::uint32_t backward_gpu = kNone;  ///< the last task backward put on the main stream
  std::string guessed;                 ///< what the trace does not show; empty when it shows all
  [[nodiscard]] std::int64_t bytes() const { return elements * bytes_per_element; }
};
/// Declined when the step shows no backward pass or the size of the parameters is unknown.
Result<Gradients> find_gradients(const Model& model);

/// Gradients reduced by one call; indices into Gradients::list.
struct Bucket {
  std::vector<std::uint32_t> gradients;
  std::int64_t bytes = 0;
};
using BucketPlan = std::vector<Bucket>;

/// Gradients [first, last] of Gradients::list, reduced together.
struct GradientRange {
  std::uint32_t first = 0, last = 0;
  friend bool operator==(const GradientRange&, const GradientRange&) = default;
};

/// As DistributedDataParallel builds them from the second step on: gradients in the order they became ready; a bucket is
/// closed once it holds at least its limit (`first` for the first one). PyTorch takes 1 MiB for the first bucket and 25 MiB for
/// the others, unless bucket_cap_mb is given: then that for all.
BucketPlan pytorch_buckets(const Gradients& gradients, std::int64_t cap_bytes, std::int64_t first_bytes);

enum class Scheme : std::uint8_t {
  kDdp,          ///< all-reduce of buckets, overlapped with backward
  kFsdp,         ///< ZeRO 3: parameters gathered before use, gradients reduce-scattered
  kZero1,        ///< optimizer states divided: all-reduce, then each owner broadcasts its updated parameters
  kZero2,        ///< gradients divided too: reduce-scatter, then updated parameters gathered
  kPs,           ///< parameter servers: beside the workers or on machines of their own
  kP3,           ///< slices, the layers needed first go first
  kBlueConnect,  ///< all-reduce taken apart along the levels of the network
  kHorovod,      ///< a fusion buffer filled every cycle
};
std::string_view to_string(Scheme scheme);
/// "ddp", "fsdp", "zero1", …; "zero3" is fsdp.
Result<Scheme> parse_scheme(std::string_view text);
std::vector<std::string> scheme_names();

enum class Compression : std::uint8_t { kNone, kFp16, kPowerSgd, kTopK, kDgc, kQsgd, kTernGrad };
std::string_view to_string(Compression compression);
Result<Compression> parse_compression(std::string_view text);

struct Parallelism {
  Scheme scheme = Scheme::kDdp;
  double bucket_mb = 25;                      ///< MiB, as PyTorch's bucket_cap_mb
  std::optional<double> first_bucket_mb = 1;  ///< nothing: as bucket_mb
  std::vector<GradientRange> buckets = {};    ///< an explicit plan instead of the two above
  Compression compression = Compression::kNone;
  double ratio = 0.01;  ///< share of elements top-k and DGC send
  int rank = 1;         ///< of PowerSGD
  int servers = 0;      ///< parameter servers on machines of their own; 0: one beside each worker
  /// MiB that go at once through servers or through the levels of BlueConnect; nothing: 4 for P3, else whole buckets.
  std::optional<double> slice_mb = {};
  bool ring_steps = false;  ///< collectives as the steps of their ring (at most kMostSteps tasks each), not as one task
  /// P3: CPU time of the thread that sends, per slice; nothing: what DDP's hook takes for a gradient (25 us on the host
  /// measured, scaled to the trace's). Sent from Python it is 0.4 ms.
  std::optional<double> send_us = {};
  bool flat =
      false;  ///< FSDP: a unit is one flat tensor (FullyShardedDataParallel), not copied in and out (fully_shard)
  bool priorities = true;  ///< P3: false sends whole gradients, first come, first served
  double cycle_ms = 1;     ///< Horovod: how often the buffer is looked at
  double slow_worker = 1;  ///< the slowest worker's computation takes this many times as long
};

/// Steps of a longer ring are joined, so that the cost of a prediction does not depend on the number of workers.
inline constexpr int kMostSteps = 126;

struct Cluster {
  const hardware::CollectiveModel* collectives = nullptr;
  int workers = 1;
  int gpus_per_node = 1;
};

/// Writes N workers into a draft: the slowest of them sets the pace (GPUs differ from step to step; `slow_worker` comes on
/// top), and the scheme adds its collectives. The model learns what runs beside what (Model::interference), how many workers
/// (Model::workers) and how many buckets (Model::buckets) there are. One worker: nothing but `slow_worker`.
Status apply_parallelism(Model& model, Draft& draft, const Parallelism& how, const Cluster& cluster);

/// The same as a use of the scheme's what-if, for whoever has a network at hand rather than its name. The use keeps
/// `collectives` alive.
Use parallel_use(const Parallelism& how, std::shared_ptr<const hardware::CollectiveModel> collectives, int workers,
                 int gpus_per_node);

// How workers share the work as users write it, on the command line, in Python and as parameters of a what-if: names and
// numbers, checked.

inline constexpr int kMostWorkers = 16384;
inline constexpr int kMostServers = 16384;

struct ParallelChoice {
  std::string parallel = "ddp", compress = "none";
  std::optional<double> bucket_mb = {}, slice_mb = {}, slow_worker = {}, cycle_ms = {}, send_us = {};
  std::optional<double> ratio = {};  ///< share of elements top-k and DGC send
  std::optional<std::int64_t> servers = {}, rank = {};
  bool ring_steps = false;
  bool priorities = true;
  bool flat = false;  ///< FSDP of the first kind
};
Result<Parallelism> make_parallelism(const ParallelChoice& choice);

// The network between workers: from a fabric's name, its file, or measured collectives to what a collective costs.

struct NetworkChoice {
  std::string fabric = {};       ///< name or file
  std::string collectives = {};  ///< file of measured collectives instead
  std::string collectives_tag = {};
  int gpus_per_node = 0;  ///< 0: the fabric's own
};

struct Network {
  std::shared_ptr<const hardware::CollectiveModel> collectives;
  int gpus_per_node = 1;
  std::string name = {};  ///< for people
};
/// A wrong name of a fabric, or a file that cannot be read, is an error; so is a choice of nothing.
Result<Network> network_of(const NetworkChoice& choice, const hardware::Device& device);

/// Nodes are full, unless one holds all workers. `per_node` 0: the fabric's own, which may be cut.
Status check_nodes(std::int64_t workers, std::int64_t per_node);

/// The node this GPU is usually sold in, as a fabric.
std::string usual_fabric(const hardware::Device& device);

}  // namespace foretrace::whatif
