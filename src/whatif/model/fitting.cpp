#include "whatif/model/fitting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "whatif/model/compiled.hpp"
#include "whatif/model/graph_facts.hpp"

namespace foretrace::whatif {

namespace {

enum class Fits : std::uint8_t {
  kAnyStep,
  kTraining,    ///< gradients, optimizers, activations kept for the backward pass
  kNotServing,  ///< not a step that generates: its next step needs what this one gives
};

/// A what-if without a row is for any step, and its line is the same everywhere.
struct Row {
  std::string_view whatif;
  Fits fits = Fits::kAnyStep;
  std::string_view code = {};  ///< where nothing is trained; empty: the what-if's own
};

constexpr std::array kRows = {
    Row{"accumulate", Fits::kTraining},
    Row{"batch", Fits::kAnyStep,
        "more samples or requests per step: batch_size=…, --max-num-seqs (vLLM), --max-running-requests (SGLang)"},
    Row{"checkpoint", Fits::kTraining},
    Row{"compile", Fits::kAnyStep, "model = torch.compile(model)  # and with torch.inference_mode(): model(x)"},
    Row{"compress-activations", Fits::kTraining},
    Row{"cuda-graph", Fits::kAnyStep,
        "with torch.inference_mode(), torch.cuda.graph(torch.cuda.CUDAGraph()): y = model(x)"},
    Row{"foreach-optimizer", Fits::kTraining},
    Row{"fp8", Fits::kAnyStep,
        "torchao.quantization.quantize_(model, "
        "torchao.quantization.Float8DynamicActivationFloat8WeightConfig())"},
    Row{"fused-optimizer", Fits::kTraining},
    Row{"no-sync", Fits::kNotServing, "keep results on the GPU, and read them (.item(), .cpu()) every 50th step"},
    Row{"offload", Fits::kTraining},
};

Row row_of(const WhatIf& whatif) {
  const auto* const row =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.whatif == whatif.name; });
  return row == kRows.end() ? Row{whatif.name} : *row;
}

}  // namespace

graph::StepNature GraphFacts::nature(const Model& model) const {
  std::call_once(nature_->found, [&] {
    if (model.trace != nullptr) nature_->is = graph::step_nature(*model.trace, model.graph);
  });
  return nature_->is;
}

graph::StepNature nature_of(const Model& model) {
  if (model.facts) return model.facts->nature(model);
  return model.trace != nullptr ? graph::step_nature(*model.trace, model.graph) : graph::StepNature{};
}

std::string code_of(const Use& use, const Model& model) {
  const WhatIf& whatif = *use.whatif;
  if (is_compiled(model)) return whatif.jax_code;
  const bool training = nature_of(model).kind == graph::StepKind::kTraining;
  if (whatif.code_for != nullptr) {
    if (std::string code = whatif.code_for(use.parameters, training); !code.empty()) return code;
  }
  const std::string_view other = row_of(whatif).code;
  return other.empty() || training ? whatif.code : std::string(other);
}

std::string unfit_for(const WhatIf& whatif, const Model& model) {
  const graph::StepNature step = nature_of(model);
  const Fits fits = row_of(whatif).fits;
  if (fits == Fits::kTraining && step.infers()) {
    return fmt::format("it is for training, and this is no training step ({})", to_string(step.kind));
  }
  if (fits == Fits::kNotServing && step.generates()) {
    return fmt::format("the next step needs what this one computes ({})", to_string(step.kind));
  }
  return {};
}

}  // namespace foretrace::whatif
