#include <fmt/format.h>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/job/compress_reductions.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/model/whole_number.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {
namespace {

std::string code_for(const Parameters& p, bool /*training*/) {
  const std::string& method = p.text("method");
  if (method == "fp16") return "model.register_comm_hook(None, default_hooks.fp16_compress_hook)";
  if (method == "powersgd") {
    return fmt::format(
        "model.register_comm_hook(PowerSGDState(None, matrix_approximation_rank={:g}), powerSGD_hook.powerSGD_hook)",
        p.number("rank"));
  }
  return fmt::format("model.register_comm_hook(state, hook)  # with a hook of your own for {}", method);
}

ParallelChoice compressed_choice(const Parameters& parameters) {
  ParallelChoice choice = choice_of(parameters, "ddp");
  choice.compress = parameters.text("method");
  choice.ratio = parameters.number("ratio");
  choice.rank = static_cast<std::int64_t>(parameters.number("rank"));
  return choice;
}

Status apply_compress_gradients(Model& model, Draft& draft, const Parameters& parameters) {
  return apply_on_cluster(model, draft, parameters, compressed_choice(parameters));
}

// A job reduces its gradients already: over the network it was recorded on, in its buckets.
Result<JobPlan> apply_to_job(const JobModels&, const Parameters& parameters) {
  FORETRACE_TRY(const Parallelism how, make_parallelism(compressed_choice(parameters)));
  return JobPlan{[how](std::size_t, Model& model, Draft& draft) { return compress_reductions(model, draft, how); }};
}

std::string already_there(const Model& m, const Parameters& p) {
  const std::shared_ptr<const StepFacts> has = step_facts(m);
  if (!has->half_gradients || p.text("method") != "fp16" || same_workers(*has, p).empty()) return {};
  return "gradients already travel in half precision";
}

WhatIf compress_gradients_whatif() {
  WhatIf w = scheme_whatif({.name = "compress-gradients",
                            .about = "gradients compressed before they are reduced, with what compressing costs",
                            .parameters = {bucket_mb_parameter()},
                            .assumes = "training still converges",
                            .source = "DGC, QSGD, TernGrad, PowerSGD, top-k; PyTorch communication hooks",
                            .not_modelled = "convergence",
                            .code = "model.register_comm_hook(state, hook)",
                            .code_for = code_for,
                            .validated = true,
                            .apply = apply_compress_gradients,
                            .already = already_there,
                            .explains = {{Difference::kGradientsInOtherType}}});
  // The scheme's `compress` is called `method` here, and asked first.
  Parameter method = w.parameters.back();
  w.parameters.pop_back();
  method.name = "method";
  method.about = "how";
  method.default_value = "fp16";
  std::erase(method.choices, "none");
  w.parameters.insert(w.parameters.begin(), std::move(method));
  w.parameters.push_back({.name = "ratio",
                          .about = "share of elements top-k and DGC send",
                          .default_value = "0.01",
                          .type = ParameterType::kNumber});
  w.parameters.push_back({.name = "rank",
                          .about = "of PowerSGD",
                          .default_value = "1",
                          .type = ParameterType::kNumber,
                          .check = whole_number<>});
  return w;
}

const Registered kRegistered(compress_gradients_whatif());
const RegisteredForJobs kOnJobs("compress-gradients", apply_to_job);

}  // namespace
}  // namespace foretrace::whatif
