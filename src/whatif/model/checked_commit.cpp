#include "whatif/model/checked_commit.hpp"

#include "graph/soundness.hpp"

namespace foretrace::whatif {

Result<graph::Graph> checked_commit(const Draft& draft, work::Works& works) {
  graph::Graph changed = draft.commit(works);
  if (Status sound = graph::verify_or_relax(changed); !sound) {
    // What the trace itself contradicts is not our bug, and has another name.
    if (draft.contradicted() || graph::runs_out_of_order(draft.base())) {
      return fail(
          ErrorCode::kDeclined,
          "the trace shows work of a stream in another order than that of its launches, and this change would have "
          "to go in between");
    }
    return forward(sound);
  }
  return changed;
}

}  // namespace foretrace::whatif
