#include <algorithm>

#include "graph/latencies.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/catalogue/rows.hpp"

namespace foretrace::whatif {

namespace {

using work::Family;
using work::Work;

// Passes over a feature map that stay. Beside ReLU: the sums read it, applying them reads and writes it; backward, the sums
// read it and the gradient, applying them reads both and writes one. In the convolutions around it: the one before sums up
// what it writes, the one behind applies what it reads; backward, the sums' two reads stay.
struct Passes {
  double forward, backward;
};
constexpr Passes kBesideRelu{3, 5};
constexpr Passes kInConvolutions{0, 2};
// Kernels a generated batch norm takes: sums by block, sums, application; backward one more.
constexpr double kKernelsForward = 3, kKernelsBackward = 4;

bool is_relu(const Model& m, const Row& r) {
  const Work& w = m.works[r.work];
  const std::string_view op = w.op.valid() ? m.trace->strings[w.op] : std::string_view();
  return op.find("relu") != std::string_view::npos || op.find("clamp_min") != std::string_view::npos ||
         op.find("threshold_backward") != std::string_view::npos;
}

Status apply_batchnorm(Model& m, Draft& draft, const Parameters& parameters) {
  if (m.device.bandwidth_gbs <= 0) return fail(ErrorCode::kDeclined, "the GPU's memory bandwidth is unknown");
  const bool in_convolutions = parameters.text("fuse") == "conv";
  const Passes passes = in_convolutions ? kInConvolutions : kBesideRelu;
  const std::vector<Row> rows = rows_of(m, draft);
  Selection gone;
  std::size_t norms = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& r = rows[i];
    const Work work = m.works[r.work];
    if (work.family != Family::kBatchNorm || work.elements <= 0) continue;
    // ReLU runs behind the norm, and its gradient in front of the norm's.
    const bool backward = r.phase == Phase::kBackward;
    const bool has_neighbour = backward ? i > 0 : i + 1 < rows.size();
    const Row* relu = has_neighbour ? &rows[backward ? i - 1 : i + 1] : nullptr;
    if (relu == nullptr || relu->phase != r.phase || !is_relu(m, *relu) ||
        m.works[relu->work].elements != work.elements) {
      continue;
    }
    gone.insert(gone.end(), relu->tasks.begin(), relu->tasks.end());
    const double bytes = static_cast<double>(work.elements) * static_cast<double>(bytes_of(work.dtype));
    const double time =
        (backward ? kKernelsBackward : kKernelsForward) * static_cast<double>(graph::usual_latencies().short_kernel) +
        (backward ? passes.backward : passes.forward) * bytes / m.device.streaming_gbs();
    set_row(m, draft, r, std::min(time, static_cast<double>(r.time)), work, graph::Origin::kModelled);
    ++norms;
  }
  if (norms == 0) return fail(ErrorCode::kDeclined, "no batch norm is followed by a ReLU in this step");
  std::sort(gone.begin(), gone.end());
  draft.remove(gone, Draft::kWithLaunch);
  return {};
}

WhatIf batchnorm_whatif() {
  return {
      .name = "batchnorm",
      .about = "batch norm is split, and its parts run together with their neighbours",
      .parameters = {{"fuse",
                      "relu: with the ReLU behind it; conv: its sums in the convolution before, the rest in the one "
                      "behind it",
                      "relu",
                      {"relu", "conv"}}},
      .assumes =
          "kernels bound by memory bandwidth, each pass over a feature map once; convolutions no slower for "
          "what they do beside",
      .source = "Jung et al. 2018 (restructured batch normalization); Daydream section 5",
      .not_modelled =
          "batch norms without a ReLU behind them stay as they are; only the GPU's time was compared with a "
          "measurement (2 % less than measured): kernels compiled one by one cost the CPU more than they save",
      .needs = {Need::kShapes},
      .changes = Changes::kKernels,
      .parts = {.memory = Part::kNotModelled},
      .code = "torch.compile of batch norm and ReLU together",
      .effort = Effort::kWork,
      .stage = Stage::kKernels,
      .advise = {},
      .validated = false,
      .apply = apply_batchnorm,
      .whole_program = "XLA has fused batch norms with their neighbours already",
      .unvalidated = {"fuse=conv"}};
}

const Registered kRegistered(batchnorm_whatif);

}  // namespace

}  // namespace foretrace::whatif
