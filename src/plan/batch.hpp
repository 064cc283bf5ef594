#pragma once
// How a plan's batch is divided over replicas and micro-batches.

#include <optional>

#include "plan/plan.hpp"

namespace foretrace::plan {

/// Samples and micro-batches of one replica.
struct Batch {
  int microbatches = 1;
  double share = 1;    // a micro-batch over the traced batch
  double replica = 1;  // a replica's batch over the traced one
};

/// `global`: samples of the whole job; nothing: the traced batch on every replica. `traced`: samples of the traced step, where it shows them.
/// Declined where samples do not divide.
Result<Batch> batch_of(const Plan& plan, std::optional<double> global, std::optional<double> traced);

}  // namespace foretrace::plan
