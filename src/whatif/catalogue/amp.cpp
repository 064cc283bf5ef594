#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/dataflow/layer_regions.hpp"
#include "whatif/model/compiled.hpp"
#include "whatif/model/fitting.hpp"
#include "whatif/model/script.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/model/use_code.hpp"
#include "whatif/rewrite/fused_attention.hpp"
#include "whatif/rewrite/precision_memory.hpp"
#include "whatif/rewrite/scaling.hpp"
#include "whatif/rewrite/typed_rows.hpp"
#include "whatif/rewrite/workspaces.hpp"

namespace foretrace::whatif {
namespace {

using work::Dtype;
using work::Family;
using work::Work;

class Amp {
 public:
  Amp(Model& m, Draft& draft, Dtype dtype)
      : m_(m), draft_(draft), dtype_(dtype), shared_flow_(shared_flow(m)), flow_(*shared_flow_) {}

  /// `layers`: globs of modules; none: the whole forward pass.
  Status run(const std::vector<std::string>& layers) {
    everywhere_ = layers.empty() || (layers.size() == 1 && layers.front() == "*");
    if (!everywhere_ && is_compiled(m_)) {
      return fail(ErrorCode::kDeclined,
                  "XLA fuses across layers: which kernels a cast at their border joins is not in its profile");
    }
    if (!everywhere_) {
      FORETRACE_TRY(regions_, choose_regions(m_, flow_, layers));
    }
    const std::vector<Row> rows = rows_of(m_, draft_);
    const std::size_t works_before = m_.works.size();
    std::vector<char> inside(everywhere_ ? 0 : flow_.units.size());
    for (std::size_t u = 0; u < inside.size(); ++u) inside[u] = regions_.of_unit[u] != kNone ? 1 : 0;
    cast_ = autocast(flow_, inside);
    TypedRows typed(m_, draft_, flow_, cast_, dtype_);
    FORETRACE_TRY_VOID(fuse_attentions(m_, draft_, flow_, computed_from_parts(rows), dtype_));
    std::size_t halves = 0;
    for (const Row& row : rows) {
      if (draft_.removed(row.tasks.front()) || !change(row, typed)) continue;
      ++halves;
      half_tasks_.insert(row.tasks.begin(), row.tasks.end());
    }
    if (halves == 0)
      return fail(ErrorCode::kDeclined, "no operation of this step runs in half precision under autocast");
    if (is_compiled(m_)) {
      m_.not_modelled.emplace_back("XLA compiles another program for another type, with other fusions");
      if (m_.memory) half_program_memory(m_);
      return {};
    }
    halve_collectives();
    insert_casts(m_, draft_, flow_, cast_, typed.places(), dtype_);
    if (dtype_ == Dtype::kFp16 && !nature_of(m_).infers())
      insert_grad_scaler(m_, draft_, typed.places().end_of_backward);
    if (m_.memory) autocast_memory(m_, flow_, cast_);
    resize_workspaces(m_, works_before);
    return {};
  }

 private:
  // Gives a row its new cost; returns whether it is half now.
  bool change(const Row& row, TypedRows& typed) {
    const std::uint32_t event = m_.works[row.work].op_event;
    if (is_compiled(m_)) return change_compiled(row);
    if (event == kNone || (row.phase != Phase::kForward && row.phase != Phase::kBackward)) return false;
    if (const std::optional<bool> known = typed.change(row)) return *known;
    // Without sequence numbers a product's gradient is still known to be one.
    const bool chosen = everywhere_ || regions_.of(m_.graph, flow_, event, row.tasks.front()) != kNone;
    return row.phase == Phase::kBackward && chosen && is_product(m_.works[row.work]) && half(row, Precision::kHalf);
  }

  [[nodiscard]] std::vector<Attention> computed_from_parts(const std::vector<Row>& rows) const {
    std::vector<Attention> all = fused_in_half(m_, rows, flow_);
    std::erase_if(all, [&](const Attention& a) { return cast_.units[a.first_unit].precision != Precision::kHalf; });
    return all;
  }

  // What tensor parallelism reduces behind a product of the forward pass has the product's type. Gradients of activations reach their
  // collective in the type of the norm in front, which stays FP32, and gradients of parameters stay FP32, too.
  void halve_collectives() {
    if (!m_.transfers_only) return;  // of one rank's kernel most may be waiting
    const graph::Graph& g = m_.graph;
    const auto called = [&](std::uint32_t t) { return g.measured[g.launch[t].index()]; };
    std::vector<std::uint32_t> order;
    for (std::uint32_t t = 0; t < g.size(); ++t) {
      if (graph::is_gpu(g.kind[t]) && g.launch[t].valid() && g.lane[g.launch[t].index()] == g.main_lane)
        order.push_back(t);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return called(a) < called(b); });
    bool half_before = false;
    for (const std::uint32_t t : order) {
      if (g.kind[t] != graph::TaskKind::kCollective) {
        half_before = half_tasks_.contains(t);
      } else if (half_before && moves_samples(m_, t)) {
        draft_.scale({t}, 0.5);  // half of the bytes
      }
    }
  }

  // A compiled program computes forward and backward in the type of its inputs, casts and all fused; what works on
  // parameters alone and the update keep theirs.
  bool change_compiled(const Row& row) {
    const Work& work = m_.works[row.work];
    const bool passes = row.phase == Phase::kForward || row.phase == Phase::kBackward;
    if (!everywhere_ || !passes || work.of_parameters || !work.has_shape() || work.family == Family::kCommunication) {
      return false;
    }
    // XLA converts a weight in a kernel of its own in front of the library's product.
    const bool weighs = row.phase == Phase::kForward && is_product(work) && work.weight_elements > 0;
    if (weighs && (work.dtype == Dtype::kFp32 || work.dtype == Dtype::kTf32))
      insert_weight_cast(m_, draft_, row, dtype_);
    return half(row, Precision::kHalf);
  }

  bool half(const Row& row, Precision precision) { return change_precision(m_, draft_, row, precision, dtype_); }

  Model& m_;
  Draft& draft_;
  Dtype dtype_;
  std::shared_ptr<const Dataflow> shared_flow_;
  const Dataflow& flow_;
  Autocast cast_;
  LayerRegions regions_;
  bool everywhere_ = true;
  std::set<std::uint32_t> half_tasks_;
};

Status apply_amp(Model& m, Draft& draft, const Parameters& parameters) {
  const bool bf16 = parameters.text("dtype") == "bf16";
  if ((bf16 ? m.device.tflops_bf16 : m.device.tflops_fp16) <= 0) {
    return fail(ErrorCode::kDeclined, "this GPU has no tensor cores for that type");
  }
  return Amp(m, draft, bf16 ? Dtype::kBf16 : Dtype::kFp16).run(parameters.list("layers"));
}

std::string half_type(const ScriptPart& p) {
  return p.parameters.text("dtype") == "bf16" ? "torch.bfloat16" : "torch.float16";
}

void write_code(const ScriptPart& p, ScriptPlaces& to) {
  const std::vector<std::string> layers = p.parameters.list("layers");
  to.scaler = half_type(p) == "torch.float16";
  if (layers.empty()) {
    to.contexts.push_back(
        fmt::format("with torch.autocast(tensors_of(inputs)[0].device.type, dtype={}):{}", half_type(p), p.gain));
    return;
  }
  // Regions of autocast: a block whose successor is half too hands on what it has.
  std::string all;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool goes_on = i + 1 < layers.size() && follows(layers[i], layers[i + 1]);
    all += fmt::format("        ({}, {}),\n", python_literal(layers[i]), goes_on ? "False" : "True");
  }
  to.model.push_back(
      fmt::format("    for name, ends in ({}\n{}    ):\n        for module in modules_named(model, name):\n"
                  "            autocast_region(module, {}, ends)",
                  p.gain, all, half_type(p)));
  to.layers.insert(to.layers.end(), layers.begin(), layers.end());
}

std::string code_for(const Parameters& p, bool training) {
  const bool bf16 = p.text("dtype") == "bf16";
  std::string note = on_layers(p);
  // bf16 has the range of fp32: nothing underflows, and no scaler is needed.
  if (training && !bf16) note += note.empty() ? "and torch.amp.GradScaler" : ", and torch.amp.GradScaler";
  return with_note(fmt::format("with {}torch.autocast('cuda', dtype=torch.{}): …",
                               training ? "" : "torch.inference_mode(), ", bf16 ? "bfloat16" : "float16"),
                   note);
}

const Registered kRegistered(
    {.name = "amp",
     .about = "mixed precision: autocast, and a gradient scaler for fp16",
     .parameters = {{"dtype", "the half type", "fp16", {"fp16", "bf16"}},
                    {"layers", "globs of modules that run under autocast, separated by |; all when not given"}},
     .assumes =
         "torch.autocast's lists; parameters and optimizer stay FP32; what leaves the chosen layers is cast back "
         "once",
     .source = "Micikevicius et al. 2018; torch.autocast; Daydream section 5",
     .needs = {Need::kShapes},
     .changes = Changes::kPrecision,
     .parts = {.memory = Part::kModelled},
     .code = "with torch.autocast('cuda', dtype=torch.float16): …  # and torch.amp.GradScaler",
     .jax_code = "loss(jax.tree.map(lambda p: p.astype(jnp.bfloat16), params), …)  # inside jax.value_and_grad; the "
                 "update stays FP32",
     .code_for = code_for,
     .effort = Effort::kFewLines,
     .stage = Stage::kPrecision,
     .advise = {"amp:dtype=bf16", "amp"},
     .validated = true,
     .apply = apply_amp,
     .already = if_step_has(&StepFacts::half_products, "the step already runs matrix products in half precision"),
     .write_code = write_code,
     .explains = {{Difference::kProductsInFp16}, {Difference::kProductsInBf16, "amp:dtype=bf16"}}});

}  // namespace
}  // namespace foretrace::whatif
