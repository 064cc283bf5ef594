#pragma once
// The communicating part of a strategy: from names to models, and the best buckets for a step.

#include <memory>

#include "foretrace/hardware/collective.hpp"
#include "foretrace/search/strategy.hpp"
#include "foretrace/search/tensors.hpp"
#include "foretrace/whatif/parallel.hpp"

namespace foretrace::search {

struct Network {
  std::unique_ptr<hardware::CollectiveModel> collectives;
  whatif::Cluster cluster;
};
/// A wrong name of a fabric, or a file that cannot be read, is an error.
Result<Network> network_of(const Communication& communication, const hardware::Device& device);

/// The scheme as the simulation takes it. Declined when buckets speak of other gradients than the step has.
Result<whatif::Strategy> scheme_of(const Communication& communication, const whatif::Gradients& gradients);

/// One collective for every gradient, and what joining them changes.
struct TensorStep {
  graph::Graph graph;
  TensorProblem problem;  ///< points into `graph`
};
Result<std::unique_ptr<TensorStep>> tensor_step(const whatif::Model& model, const Communication& communication,
                                                const Network& network);

/// Buckets found by search_tensors for this model, in MiB for people.
Result<std::vector<PlannedBucket>> plan_buckets(const whatif::Model& model, const Communication& communication,
                                                const Network& network, const TensorOptions& options);

/// Buckets as PyTorch fills them, as a plan.
std::vector<PlannedBucket> planned(const whatif::Gradients& gradients, const whatif::BucketPlan& plan);

}  // namespace foretrace::search
