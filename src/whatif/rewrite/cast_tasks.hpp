#pragma once
// The kernels that convert tensors between FP32 and half: in front of the operation they are made for, and behind its backward
// pass the other way round.

#include "whatif/rewrite/autocast.hpp"

namespace foretrace::whatif {

/// GPU tasks between which casts are placed, by unit of the flow; kNone where a unit has none.
struct CastPlaces {
  std::vector<std::uint32_t> first;          ///< of its forward pass
  std::vector<std::uint32_t> last_backward;  ///< of its backward pass
  std::uint32_t end_of_backward = kNone;
};

void insert_casts(Model& model, Draft& draft, const Dataflow& flow, const Autocast& cast, const CastPlaces& places,
                  work::Dtype dtype);

}  // namespace foretrace::whatif
