#pragma once
// The communication of a strategy: models from names, and the best buckets for a step.

#include <memory>

#include "foretrace/search/optimize.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "hardware/collective.hpp"
#include "search/tensors.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::search {

/// A wrong name of a fabric, or a file that cannot be read, is an error.
Result<whatif::Network> network_of(const Communication& communication, const hardware::Device& device);

/// All of it as a use of its scheme's what-if, on this device.
Result<whatif::Use> use_of(const Communication& communication, const hardware::Device& device);

/// One collective for every gradient, and what joining them changes.
struct TensorStep {
  graph::Graph graph;
  TensorProblem problem;  ///< points into `graph`
};
Result<std::unique_ptr<TensorStep>> tensor_step(const whatif::Model& model, const Communication& communication,
                                                const whatif::Network& network);

/// Buckets found by search_tensors for this model, in MiB for people.
Result<std::vector<PlannedBucket>> plan_buckets(const whatif::Model& model, const Communication& communication,
                                                const whatif::Network& network, const TensorOptions& options);

/// Buckets as PyTorch fills them, as a plan.
std::vector<PlannedBucket> planned(const whatif::Gradients& gradients, const whatif::BucketPlan& plan);

}  // namespace foretrace::search
