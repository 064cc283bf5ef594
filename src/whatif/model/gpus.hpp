#pragma once
// The number of GPUs after the changes of a stack.

#include <cstdint>

#include "foretrace/whatif/model.hpp"

namespace foretrace::whatif {

enum class Batches : std::uint8_t { kShared, kOwn };

/// Each GPU becomes so many: with a batch of their own they are replicas of the model. Declined beyond kMostWorkers.
Status multiply_gpus(Model& model, std::int64_t factor, Batches batches);

}  // namespace foretrace::whatif
