#pragma once
// Gradients of a step in the order in which the backward pass computes them, the buckets that reduce them, and N workers in a draft.

#include <cstdint>
#include <string>
#include <vector>

#include "foretrace/whatif/parallel.hpp"
#include "hardware/collective.hpp"

namespace foretrace::whatif {

/// The gradient of one parameter.
struct Gradient {
  std::int64_t elements = 0;
  std::int64_t rows = 0;                 ///< its first dimension when it has several, 0 for vectors and where unknown
  std::uint32_t parameter = 0;           ///< place of its parameter among all: of its layer in the forward pass
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
  std::size_t passes = 1;              ///< forward and backward passes that earlier changes cut the step into
  std::string guessed;                 ///< what the trace does not show; empty when it shows all
  [[nodiscard]] std::int64_t bytes() const { return elements * bytes_per_element; }
  [[nodiscard]] std::int64_t bytes(std::uint32_t i) const { return list[i].elements * bytes_per_element; }
};
/// Declined when the step has no backward pass or the size of the parameters is unknown.
Result<Gradients> find_gradients(const Model& model);

/// Gradients reduced by one call; indices into Gradients::list.
struct Bucket {
  std::vector<std::uint32_t> gradients;
  std::int64_t bytes = 0;
};
using BucketPlan = std::vector<Bucket>;

/// As DistributedDataParallel builds them, from the second step on in the order in which gradients become ready; a bucket is
/// closed once it holds at least its limit (`first` for the first one). PyTorch takes 1 MiB for the first bucket and 25 MiB for
/// the others, unless bucket_cap_mb is given: then that for all.
BucketPlan pytorch_buckets(const Gradients& gradients, std::int64_t cap_bytes, std::int64_t first_bytes,
                           BucketOrder order = BucketOrder::kReady);

/// Steps of a longer ring are joined, so that the cost of a prediction does not depend on the number of workers.
inline constexpr int kMostSteps = 126;

struct Cluster {
  const hardware::CollectiveModel* collectives = nullptr;
  int workers = 1;
  int gpus_per_node = 1;
};

/// Writes N workers into a draft. The slowest of them sets the pace (GPUs differ from step to step; `slow_worker` comes on top), and
/// the scheme adds its collectives. Sets Model::interference, Model::workers and Model::buckets. With one worker, only `slow_worker`
/// applies.
Status apply_parallelism(Model& model, Draft& draft, const Parallelism& how, const Cluster& cluster);

}  // namespace foretrace::whatif
