#include <fmt/format.h>

#include <algorithm>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/script.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/rewrite/host_copies.hpp"

namespace foretrace::whatif {

namespace {

// With a stream of its own only what is worth a transfer goes: feature maps, as vDNN does it.
constexpr std::int64_t kWorthATransfer = 1 << 20;

Status apply_offload(Model& m, Draft& draft, const Parameters& parameters) {
  if (m.device.pcie_gbs <= 0)
    return fail(ErrorCode::kDeclined, "the rate of copies to the host is unknown for this GPU");
  if (std::string why = unknown_saved(m); !why.empty()) return fail(ErrorCode::kDeclined, std::move(why));
  std::vector<SavedTensor> saved = saved_tensors(m, draft);
  const bool prefetch = parameters.text("prefetch") == "1";
  if (prefetch) {
    std::erase_if(saved, [](const SavedTensor& s) { return s.parameter || s.bytes < kWorthATransfer; });
  }
  if (saved.empty()) {
    return fail(ErrorCode::kDeclined,
                "no tensor is known to be kept for the backward pass: the trace needs shapes and "
                "sequence numbers of a training step");
  }
  if (prefetch) {
    copy_beside(m, draft, saved);
    m.not_modelled.emplace_back(
        "offload:prefetch=1: copies and kernels that slow each other down; the two steps measured did not hold their "
        "copies back for memory's sake (-3 % and +15 %)");
  } else {
    copy_in_order(m, draft, saved);
  }
  release_saved(m, saved, 0);
  return {};
}

std::string already_there(const Model& m, const Parameters&) {
  const std::shared_ptr<const StepFacts> has = step_facts(m);
  return has->offloads ? "the step already keeps activations in the host's memory" : "";
}

void write_code(const ScriptPart& p, ScriptPlaces& to) {
  if (p.parameters.text("prefetch") == "1") {
    to.contexts.push_back("with offloaded_beside(model):" + p.gain);
  } else {
    to.contexts.push_back("with torch.autograd.graph.save_on_cpu(pin_memory=tensors_of(inputs)[0].is_cuda):" + p.gain);
  }
}

WhatIf offload_whatif() {
  return {.name = "offload",
          .about = "tensors kept for the backward pass wait in the host's memory",
          .parameters = {{"prefetch",
                          "1: copies run beside the computation and come back early (vDNN); 0: in its stream, as "
                          "save_on_cpu does it",
                          "0",
                          {"0", "1"}}},
          .assumes =
              "pinned host memory, used again from step to step; every saved tensor goes (prefetch=1: activations "
              "of a megabyte and more)",
          .source = "Rhu et al. 2016 (vDNN); torch.autograd.graph.save_on_cpu; Daydream section 5",
          .not_modelled = "tensors of operations whose derivative is not in the table (custom autograd functions)",
          .needs = {Need::kShapes, Need::kBackward},
          .changes = Changes::kPlacement,
          .parts = {.memory = Part::kModelled},
          .code = "with torch.autograd.graph.save_on_cpu(pin_memory=True): loss = loss_fn(model(x), y)",
          .effort = Effort::kLine,
          .stage = Stage::kMemory,
          .advise = {"offload"},
          .validated = true,
          .apply = apply_offload,
          .already = already_there,
          .whole_program = "which tensors a compiled program keeps is not in its trace",
          .write_code = write_code};
}

const Registered kRegistered(offload_whatif);

}  // namespace

}  // namespace foretrace::whatif
