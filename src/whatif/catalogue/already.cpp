#include "whatif/catalogue/already.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "foretrace/whatif/parallel.hpp"
#include "whatif/catalogue/blocks.hpp"
#include "whatif/parallel/builder.hpp"
#include "whatif/step_facts.hpp"

namespace foretrace::whatif {

namespace {

using work::Family;

std::string amp(const Model&, const StepFacts& has, const Parameters&) {
  return has.half_products ? "the step already runs matrix products in half precision" : "";
}

// PyTorch has two switches, one for products and one for cuDNN, which is on by default. What runs in strict FP32 beside the
// same kind in TF32 stays so: the library chose it.
std::string tf32(const Model& m, const StepFacts& has, const Parameters&) {
  if (!has.tf32_products && !has.tf32_convolutions) return {};
  const bool left = std::any_of(m.works.rows.begin(), m.works.rows.end(), [&](const work::Work& w) {
    if (!is_product(w) || w.family == Family::kAttention || w.dtype != work::Dtype::kFp32) return false;
    return w.family == Family::kGemm ? !has.tf32_products : !has.tf32_convolutions;
  });
  return left ? "" : "the step already runs its products and convolutions in TF32";
}

std::string channels_last_layout(const Model&, const StepFacts& has, const Parameters&) {
  return has.channels_last ? "the step's convolutions already run in channels-last layout" : "";
}

std::string compile(const Model&, const StepFacts& has, const Parameters&) {
  return has.compiled ? "the step already runs kernels of torch.compile" : "";
}

std::string fused_optimizer(const Model&, const StepFacts& has, const Parameters&) {
  return has.fused_update ? "the step already runs a fused update" : "";
}

std::string foreach_optimizer(const Model&, const StepFacts& has, const Parameters&) {
  if (has.fused_update)
    return "the step already runs a fused update, which has less to do than one over lists of tensors";
  return has.foreach_update ? "the step already runs its update over lists of tensors" : "";
}

std::string cuda_graph(const Model&, const StepFacts& has, const Parameters&) {
  return has.graphed() ? "the step already runs as a CUDA graph" : "";
}

std::string accumulate(const Model&, const StepFacts& has, const Parameters&) {
  if (has.passes < 2) return {};
  return fmt::format("the step already adds up the gradients of {} passes before its update", has.passes);
}

std::string checkpoint(const Model& m, const StepFacts& has, const Parameters& parameters) {
  if (!has.recomputes) return {};
  const std::vector<std::string> wanted = parameters.list("layers");
  const std::vector<BlockOfLayers> blocks = repeated_runs(m.graph);
  const bool left = std::any_of(blocks.begin(), blocks.end(), [&](const BlockOfLayers& b) {
    const bool asked = wanted.empty() || std::any_of(wanted.begin(), wanted.end(),
                                                     [&](const std::string& w) { return glob_match(w, b.name); });
    return asked && !b.name.empty() && !has.recomputed.empty() && !recomputes(has, b.name);
  });
  return left ? "" : "the step already runs its blocks again in the backward pass (activation checkpointing)";
}

std::string offload(const Model&, const StepFacts& has, const Parameters&) {
  return has.offloads ? "the step already keeps activations in the host's memory" : "";
}

// The number of workers is what a change of a job that has several is about; without another one it is the job as it is.
std::string same_workers(const StepFacts& has, const Parameters& p) {
  const bool other = p.given("workers") && p.number("workers") != static_cast<double>(has.workers);
  constexpr std::array<std::string_view, 8> kChoices = {"fabric",     "collectives", "gpus_per_node", "slow_worker",
                                                        "ring_steps", "bucket_mb",   "compress",      "slice_mb"};
  const bool chosen = std::any_of(kChoices.begin(), kChoices.end(), [&](std::string_view c) { return p.given(c); });
  if (other || chosen) return {};
  return fmt::format("over {} workers (workers=… asks for another number)", has.workers);
}

std::string ddp(const Model&, const StepFacts& has, const Parameters& p) {
  if (has.workers < 2 || has.sharded) return {};
  const std::string how = same_workers(has, p);
  return how.empty() ? "" : "the step already runs data parallel " + how;
}

std::string fsdp(const Model&, const StepFacts& has, const Parameters& p) {
  if (has.workers < 2 || !has.sharded) return {};
  const std::string how = same_workers(has, p);
  return how.empty() ? "" : "the step already runs sharded " + how;
}

std::string compress_gradients(const Model&, const StepFacts& has, const Parameters& p) {
  if (!has.half_gradients || p.text("method") != "fp16" || same_workers(has, p).empty()) return {};
  return "gradients already travel in half precision";
}

// Known by how many buckets there are: one more or less is the small first one that DDP has by default.
std::string bucket(const Model& m, const StepFacts& has, const Parameters& p) {
  if (has.workers < 2 || has.sharded || has.reductions == 0 || same_workers(has, p).empty()) return {};
  const Result<Gradients> gradients = find_gradients(m);
  if (!gradients) return {};
  Parallelism how;
  how.bucket_mb = p.number("mb");
  how.first_bucket_mb.reset();
  const std::size_t asked = plan_of(*gradients, how).size();
  if (asked != has.reductions && asked + 1 != has.reductions) return {};
  return fmt::format("the step already reduces its gradients in {} buckets", has.reductions);
}

struct Seen {
  std::string_view whatif;
  std::string (*why)(const Model&, const StepFacts&, const Parameters&);
};
constexpr std::array<Seen, 15> kSeen = {{{"accumulate", accumulate},
                                         {"amp", amp},
                                         {"bucket", bucket},
                                         {"channels-last", channels_last_layout},
                                         {"checkpoint", checkpoint},
                                         {"compile", compile},
                                         {"compress-gradients", compress_gradients},
                                         {"cuda-graph", cuda_graph},
                                         {"ddp", ddp},
                                         {"foreach-optimizer", foreach_optimizer},
                                         {"fsdp", fsdp},
                                         {"fused-optimizer", fused_optimizer},
                                         {"offload", offload},
                                         {"tf32", tf32},
                                         {"zero3", fsdp}}};

}  // namespace

std::string already_there(const Model& model, const Use& use) {
  if (use.own != nullptr) return {};
  const auto* seen =
      std::find_if(kSeen.begin(), kSeen.end(), [&](const Seen& s) { return s.whatif == use.whatif->name; });
  return seen == kSeen.end() ? std::string() : seen->why(model, *step_facts(model), use.parameters);
}

}  // namespace foretrace::whatif
