#pragma once
// Collectives of a recorded step that stand between a product and what uses their result, and what of the step can overlap them.
//
//   product ─▶ all-reduce ─▶ add              product 1 ─▶ product 2 ─▶ …  ─▶ add
//                                                      ╲            ╲        ╱
//                                                       part 1 ─▶ part 2 ─▶ …
//
// All-reduces and reduce-scatters are cut together with the product in front of them, all-gathers with those behind them, all-to-alls with the side
// that takes longer. What lies between a product and its collective (casts, sums, copies into another order) goes along its rows too and
// is cut with it. Gradients of weights are computed while the gradient of the input is communicated. Which operations work on the tensor of a collective follows from its size.

#include <cstdint>
#include <string>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/whatif/model.hpp"
#include "ranks/collectives.hpp"

namespace foretrace::whatif {

/// A kind of collective, of one process group: its name or its description ("mesh_tp"); empty: of any.
struct NamedCollectives {
  ranks::CollectiveKind kind = ranks::CollectiveKind::kAllReduce;
  std::string group;
};

enum class CutSide : std::uint8_t {
  kNone,    ///< nothing is cut: it starts earlier, or is waited for later
  kBefore,  ///< what makes the tensor
  kBehind,  ///< what reads it
};

/// A collective that something can run beside. All are tasks; those that compute are on one stream.
struct OverlapPlace {
  std::uint32_t collective = kNone;
  CutSide side = CutSide::kNone;
  std::vector<std::uint32_t> cut;   ///< tasks that are cut with it, in their order
  std::vector<std::uint32_t> late;  ///< gradients of weights in front of it that it does not need
  std::uint32_t before = kNone;     ///< the last task in front of it; kNone: there is none
  std::uint32_t complete = kNone;   ///< behind this one, what it sends is there: `before`, or an earlier one
  std::uint32_t waiting = kNone;    ///< the first one that waits for it as recorded
  std::uint32_t reader = kNone;     ///< the first one that may read what it gives: `waiting`, or a later one
};

/// Those of a step, in their order. Declined with the reason where there is none. `parts`: 1: nothing is cut.
Result<std::vector<OverlapPlace>> overlap_places(const Model& model, const NamedCollectives& which, int parts,
                                                 std::string* left_out = nullptr);

}  // namespace foretrace::whatif
