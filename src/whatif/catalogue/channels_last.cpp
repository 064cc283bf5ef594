
#include "hardware/cost.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/script.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/rewrite/rows.hpp"
#include "whatif/rewrite/workspaces.hpp"

namespace foretrace::whatif {
namespace {

// Kernels that know both layouts. Element-wise ones do not care.
bool has_layout(const work::Work& w) {
  return is_conv(w) || w.family == work::Family::kBatchNorm || w.family == work::Family::kPooling;
}

Status apply_channels_last(Model& m, Draft& draft, const Parameters&) {
  std::size_t convolutions = 0;
  const std::size_t before = m.works.size();
  for (const Row& row : rows_of(m, draft)) {
    const work::Work work = m.works[row.work];
    const bool planes = work.family == work::Family::kReduction && work.access == work::Access::kTransposed;
    if ((!has_layout(work) || channels_last(work)) && !planes) continue;
    work::Work becomes = with_layout(work, true);
    if (planes) becomes.access = work::Access::kStrided;  // a convolution's bias gradient: columns now, not planes
    const hardware::Cost cost = rescale_row(m, row, becomes);
    if (!cost.known) continue;
    set_row(m, draft, row, cost, becomes);
    convolutions += is_conv(work) ? 1u : 0u;
  }
  if (convolutions == 0) return fail(ErrorCode::kDeclined, "no convolution would change its layout");
  resize_workspaces(m, before);
  return {};
}

void write_code(const ScriptPart& p, ScriptPlaces& to) {
  to.model.push_back("    model = model.to(memory_format=torch.channels_last)" + p.gain);
  to.inputs = "channels_last(inputs)";
}

const Registered kRegistered(
    {.name = "channels-last",
     .about = "images keep their channels innermost (NHWC), the layout that convolutions on tensor cores prefer",
     .assumes = "the whole network runs in that layout; nothing converts back",
     .source = "torch.channels_last",
     .needs = {Need::kShapes},
     .changes = Changes::kLayout,
     .code = "model.to(memory_format=torch.channels_last)",
     .effort = Effort::kFewLines,
     .stage = Stage::kKernels,
     .advise = {"channels-last"},
     .validated = true,
     .apply = apply_channels_last,
     .already = if_step_has(&StepFacts::channels_last, "the step's convolutions already run in channels-last layout"),
     .whole_program = "XLA chooses the layout of every tensor itself",
     .write_code = write_code});

}  // namespace
}  // namespace foretrace::whatif
