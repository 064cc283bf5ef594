#include <fmt/format.h>

#include <algorithm>

#include "foretrace/whatif/script.hpp"
#include "whatif/catalogue/catalogue.hpp"

namespace foretrace::whatif {

namespace {

Status apply_no_sync(Model& m, Draft& draft, const Parameters&) {
  const Graph& g = m.graph;
  // Waits of the main thread for the GPU, with the calls in front of them; the optimizer's own (a gradient scaler's look
  // at its overflow flag) stay.
  const Selection waits = draft.select({.kind = TaskKind::kWait, .lane = g.main_lane, .where = [&](std::uint32_t t) {
                                          return g.event[t].valid() && g.phase[t] != Phase::kOptimizer;
                                        }});
  Selection gone = waits;
  for (const std::uint32_t t : waits) {
    if (t > g.lanes[g.main_lane].begin && g.kind[t - 1] == TaskKind::kCall) gone.push_back(t - 1);
  }
  // Copies to the host that were only waited for.
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (g.kind[t] == TaskKind::kMemcpy && g.task_name(t).find("DtoH") != std::string_view::npos) gone.push_back(t);
  }
  if (waits.empty()) return fail(ErrorCode::kDeclined, "the step does not wait for the GPU");
  std::sort(gone.begin(), gone.end());
  draft.remove(gone);
  draft.make_periodic();
  return {};
}

void write_code(const ScriptPart& p, ScriptPlaces& to) {
  to.step.push_back("    # no-sync: nothing here waits for the GPU; read the loss (loss.item()) every 50th step or so" +
                    (p.gain.empty() ? "" : "," + p.gain.substr(3)));
}

WhatIf no_sync_whatif() {
  return {.name = "no-sync",
          .about = "the step no longer waits for the GPU (the loss is not read every step)",
          .parameters = {},
          .assumes = "nothing in the next step needs the value that was read",
          .source = "PyTorch performance guide: avoid unnecessary synchronisation",
          .not_modelled = {},
          .needs = {},
          .changes = Changes::kWaits,
          .parts = {.memory = Part::kUnchanged},
          .code = "if step % 50 == 0: print(loss.item())",
          .effort = Effort::kLine,
          .stage = Stage::kRuntime,
          .advise = {"no-sync"},
          .validated = true,
          .apply = apply_no_sync,
          .write_code = write_code};
}

const Registered kRegistered(no_sync_whatif);

}  // namespace

}  // namespace foretrace::whatif
