#pragma once
// Rows of GPU work by the operation of the forward pass they belong to, their own or its gradient's.

#include <cstdint>
#include <map>
#include <vector>

#include "whatif/dataflow/dataflow.hpp"
#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

struct UnitRows {
  std::vector<const Row*> forward, backward;
  std::vector<const Row*> sums;  ///< that add up gradients behind the operation's own
};

/// By unit of the flow; the rows are those given.
std::map<std::uint32_t, UnitRows> rows_by_unit(const Model& model, const Dataflow& flow, const std::vector<Row>& rows);

/// The unit that wrote what the first input of a unit shows; kNone: nobody in this step.
std::uint32_t source_of(const Dataflow& flow, std::uint32_t unit);

}  // namespace foretrace::whatif
