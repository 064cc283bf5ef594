#pragma once
// The step on N workers: how they share the work (scheme, buckets, compression) and the network between them.
//
//   FORETRACE_TRY(const Network network, network_of({.fabric = "100GbE"}, device));
//   FORETRACE_TRY(const Parallelism how, make_parallelism({.parallel = "ddp"}));
//   const Use workers = parallel_use(how, network.collectives, 16, network.gpus_per_node);
//   analysis::predict(base, {workers}).exposed_communication;

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

/// Gradients [first, last] of Gradients::list, reduced together.
struct GradientRange {
  std::uint32_t first = 0, last = 0;
  friend bool operator==(const GradientRange&, const GradientRange&) = default;
};

enum class Scheme : std::uint8_t {
  kDdp,          ///< all-reduce of buckets, overlapped with backward
  kFsdp,         ///< ZeRO 3: parameters gathered before use, gradients reduce-scattered
  kZero1,        ///< optimizer states divided: all-reduce, then each owner broadcasts its updated parameters
  kZero2,        ///< gradients divided too: reduce-scatter, then updated parameters gathered
  kPs,           ///< parameter servers: on the workers or on machines of their own
  kP3,           ///< gradients in slices, those of the first layers first
  kBlueConnect,  ///< all-reduce split along the levels of the network
  kHorovod,      ///< a fusion buffer filled every cycle
};
std::string_view to_string(Scheme scheme);
/// "ddp", "fsdp", "zero1", …; "zero3" is fsdp.
Result<Scheme> parse_scheme(std::string_view text);
std::vector<std::string> scheme_names();

enum class Compression : std::uint8_t { kNone, kFp16, kPowerSgd, kTopK, kDgc, kQsgd, kTernGrad };
std::string_view to_string(Compression compression);
Result<Compression> parse_compression(std::string_view text);
std::vector<std::string> compression_names();

/// In which order gradients are put into buckets. Buckets are reduced one after another, each when all of its gradients are there.
enum class BucketOrder : std::uint8_t {
  kReady,    ///< as they become ready: what DistributedDataParallel rebuilds its buckets to behind the first step
  kReverse,  ///< of the parameters, from the last one: DistributedDataParallel's first step, and all of them where it does not rebuild
  kForward,  ///< of the parameters
};
/// "ready", "reverse", "forward".
std::vector<std::string> bucket_orders();

struct Parallelism {
  Scheme scheme = Scheme::kDdp;
  double bucket_mb = 25;                      ///< MiB, as PyTorch's bucket_cap_mb
  std::optional<double> first_bucket_mb = 1;  ///< nothing: as bucket_mb
  std::vector<GradientRange> buckets = {};    ///< an explicit plan instead of the two above
  BucketOrder order = BucketOrder::kReady;
  Compression compression = Compression::kNone;
  double ratio = 0.01;  ///< share of elements top-k and DGC send
  int rank = 1;         ///< of PowerSGD
  int servers = 0;      ///< parameter servers on machines of their own; 0: one on each worker
  /// MiB that go at once through servers or through the levels of BlueConnect; nothing: 4 for P3, else whole buckets.
  std::optional<double> slice_mb = {};
  bool ring_steps = false;  ///< collectives as the steps of their ring (at most kMostSteps tasks each), not as one task
  /// P3: CPU time of the sending thread per slice; default: that of DDP's hook for a gradient. Sent from Python it is 0.4 ms.
  std::optional<double> send_us = {};
  bool sends_on_training_thread = false;  ///< P3: slices are sent between launches, not by a thread of their own
  /// FSDP: parameters are gathered in this type, and computed with in it; gradients are reduced in that one. Nothing: as the
  /// step has them, and as parameters are gathered.
  std::optional<work::Dtype> param_dtype = {}, reduce_dtype = {};
  bool reshard = true;       ///< FSDP: a unit is freed after its forward pass and gathered again for backward
  int prefetch = 0;          ///< FSDP: units gathered ahead of their use; 0: one in backward, as PyTorch does by itself
  int shard = 0;             ///< FSDP: GPUs that divide one copy of the model (HSDP); 0: all of them
  bool cpu_offload = false;  ///< FSDP: shards, their gradients and the update live on the host
  bool flat = false;         ///< FSDP: a unit is one flat tensor (FullyShardedDataParallel), never copied in or out
  bool priorities = true;    ///< P3: false sends whole gradients, first come, first served
  double cycle_ms = 1;       ///< Horovod: how often the buffer is flushed
  double slow_worker = 1;    ///< the slowest worker's computation takes this many times as long
};

/// The scheme as a use of its what-if, for callers that have a network rather than its name. The use keeps `collectives`
/// alive.
Use parallel_use(const Parallelism& how, std::shared_ptr<const hardware::CollectiveModel> collectives, int workers,
                 int gpus_per_node);

inline constexpr int kMostWorkers = 16384;
inline constexpr int kMostServers = 16384;

/// The same as the user writes it: on the command line, in Python, as parameters of a what-if.
struct ParallelChoice {
  std::string parallel = "ddp", compress = "none";
  std::string order = {};  ///< of buckets; empty: "ready"
  std::optional<double> bucket_mb = {}, slice_mb = {}, slow_worker = {}, cycle_ms = {}, send_us = {};
  std::optional<double> ratio = {};  ///< share of elements top-k and DGC send
  std::optional<std::int64_t> servers = {}, rank = {}, prefetch = {}, shard = {};
  std::string param_dtype = {}, reduce_dtype = {};  ///< "bf16", "fp16", "fp32"; empty: as the step has it
  bool reshard = true, cpu_offload = false;
  bool ring_steps = false;
  bool priorities = true;
  bool sends_on_training_thread = false;
  bool flat = false;  ///< FSDP of the first kind
};
/// Checks names and numbers.
Result<Parallelism> make_parallelism(const ParallelChoice& choice);

/// A network as the user names it.
struct NetworkChoice {
  std::string fabric = {};       ///< name or file
  std::string collectives = {};  ///< file of measured collectives instead
  std::string collectives_tag = {};
  int gpus_per_node = 0;  ///< 0: the fabric's own
};

/// What collectives cost between the workers.
struct Network {
  std::shared_ptr<const hardware::CollectiveModel> collectives;
  int gpus_per_node = 1;
  std::string name = {};  ///< for people
};
/// An error when there is no such fabric, the file cannot be read, or nothing is chosen.
Result<Network> network_of(const NetworkChoice& choice, const hardware::Device& device);

/// An error unless all nodes are full or one node holds all workers. `per_node` 0: the fabric's own.
Status check_nodes(std::int64_t workers, std::int64_t per_node);

/// The fabric of the node that this GPU is most often sold in.
std::string usual_fabric(const hardware::Device& device);

}  // namespace foretrace::whatif
