#pragma once
// What mixed precision does to the tasks of a step: kernels that change their element type, kernels that cast tensors between
// FP32 and half, and the gradient scaler.

#include "whatif/rewrite/autocast.hpp"
#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

/// Gives a row the cost it has in `precision`; returns whether it is half now. Rows that are not FP32 work, or whose cost is
/// unknown, stay as they are.
bool change_precision(Model& model, Draft& draft, const Row& row, Precision precision, work::Dtype dtype);

/// GPU tasks between which casts are placed, by unit of the flow; kNone where a unit has none.
struct CastPlaces {
  std::vector<std::uint32_t> first;          ///< of its forward pass
  std::vector<std::uint32_t> last_backward;  ///< of its backward pass
  std::uint32_t end_of_backward = kNone;
};
/// Casts stand in front of the operation they are made for; behind its backward pass the gradient is cast back.
void insert_casts(Model& model, Draft& draft, const Dataflow& flow, const Autocast& cast, const CastPlaces& places,
                  work::Dtype dtype);

/// In front of a product of a compiled program's forward pass: its weight, converted.
void insert_weight_cast(Model& model, Draft& draft, const Row& product, work::Dtype dtype);

/// torch.amp.GradScaler: gradients are unscaled and checked, and the CPU reads the result before the update may start.
/// `last_backward`: the GPU task behind which gradients are complete; kNone when there is none.
void insert_grad_scaler(Model& model, Draft& draft, std::uint32_t last_backward);

}  // namespace foretrace::whatif
