#pragma once
// What each rank's GPU does in one step, in the order in which the program launched it: computation with its phase and family, and
// communication with its operations. The kind of the job follows from this order.

#include <cstdint>
#include <span>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "foretrace/ranks/job.hpp"
#include "foretrace/work/work.hpp"
#include "ranks/collectives.hpp"
#include "ranks/job_graph.hpp"
#include "work/op_names.hpp"

namespace foretrace::ranks {

struct Act {
  Ns launched = 0;        ///< on the trace's own clock, as all times here
  Ns start = 0, end = 0;  ///< of the kernel
  std::uint32_t event = 0;
  graph::Phase phase =
      graph::Phase::kOther;  ///< of communication: that of the computation before it, or else behind it
  work::Family family = work::Family::kOther;
  work::Form form = work::Form::kNone;  ///< of its operation
  bool lookup = false;                  ///< of rows of embedding tables
  std::uint32_t first = 0, count = 0;   ///< its operations in Matching::operations; none: computation
  [[nodiscard]] bool communicates() const { return family == work::Family::kCommunication; }
  /// A product with weights: one of two activations is batched.
  [[nodiscard]] bool multiplies_weights() const {
    return family == work::Family::kGemm && form != work::Form::kBmm && form != work::Form::kBaddbmm;
  }
};

/// Per rank of the job; empty for one that lacks the step.
using ProgramOrder = std::vector<std::vector<Act>>;

/// Of one rank, whose part of the job's graph this is. `operations`: its own of Matching::operations.
std::vector<Act> program_order(const trace::Trace& trace, const std::vector<GroupOperation>& operations,
                               const graph::Graph& graph, const RankPart& part);

inline std::span<const GroupOperation> operations_of(const Matching& m, std::uint32_t rank, const Act& act) {
  return std::span(m.operations[rank]).subspan(act.first, act.count);
}

}  // namespace foretrace::ranks
