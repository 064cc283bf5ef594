#include "whatif/model/gpus.hpp"

#include <fmt/format.h>

#include "base/saturate.hpp"
#include "foretrace/whatif/parallel.hpp"

namespace foretrace::whatif {

Status multiply_gpus(Model& model, std::int64_t factor, Batches batches) {
  const std::int64_t all = saturated_product(model.workers, factor);
  if (all > kMostWorkers) {
    return fail(
        ErrorCode::kDeclined,
        fmt::format("{} GPUs, each of them {}, are more than the limit of {}", model.workers, factor, kMostWorkers),
        "the sizes of a stack's changes multiply");
  }
  model.workers = static_cast<int>(all);
  if (batches == Batches::kOwn) model.replicas *= static_cast<int>(factor);
  return {};
}

}  // namespace foretrace::whatif
