#pragma once
// Operations of a step: the GPU tasks behind each row of works, and changing all of them together.

#include <functional>
#include <vector>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

struct Row {
  std::uint32_t work = 0;
  std::vector<std::uint32_t> tasks;  ///< in lane order
  Ns time = 0;                       ///< sum of their costs in the draft
  Ns begin = 0;                      ///< when its operation begins, for program order
  Phase phase = Phase::kOther;
};

/// Rows with GPU tasks that are still there, in program order.
std::vector<Row> rows_of(const Model& model, const Draft& draft);

/// What a row takes when its work becomes another on the same GPU. A row that earlier what-ifs made run several times
/// (recomputed, accumulated) counts as often.
hardware::Cost rescale_row(const Model& model, const Row& row, const hardware::Work& becomes);

/// Gives all tasks of a row together `time`, each its share; the work they do becomes `becomes`.
void set_row(Model& model, Draft& draft, const Row& row, double time, const hardware::Work& becomes,
             graph::Origin origin);

}  // namespace foretrace::whatif
