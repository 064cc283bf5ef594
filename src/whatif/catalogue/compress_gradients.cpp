#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/model/whole_number.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {

namespace {

Status apply_compress_gradients(Model& model, Draft& draft, const Parameters& parameters) {
  ParallelChoice choice = choice_of(parameters, "ddp");
  choice.compress = parameters.text("method");
  choice.ratio = parameters.number("ratio");
  choice.rank = static_cast<std::int64_t>(parameters.number("rank"));
  return apply_on_cluster(model, draft, parameters, choice);
}

std::string already_there(const Model& m, const Parameters& p) {
  const std::shared_ptr<const StepFacts> has = step_facts(m);
  if (!has->half_gradients || p.text("method") != "fp16" || same_workers(*has, p).empty()) return {};
  return "gradients already travel in half precision";
}

WhatIf compress_gradients_whatif() {
  WhatIf w = scheme_whatif("compress-gradients", {bucket_mb_parameter()});
  w.parameters.pop_back();  // the compression is a parameter of its own here, and must be one
  std::vector<std::string> methods = compression_names();
  std::erase(methods, "none");
  w.parameters.insert(w.parameters.begin(), {"method", "how", "fp16", methods, ParameterType::kText, false, 0});
  w.parameters.push_back(
      {"ratio", "share of elements top-k and DGC send", "0.01", {}, ParameterType::kNumber, false, 0});
  w.parameters.push_back({"rank", "of PowerSGD", "1", {}, ParameterType::kNumber, false, 0, whole_number<>});
  w.about = "gradients compressed before they are reduced, with what compressing costs";
  w.assumes = "training converges all the same";
  w.source = "DGC, QSGD, TernGrad, PowerSGD, top-k; PyTorch communication hooks";
  w.not_modelled = "convergence";
  w.code = "model.register_comm_hook(state, hook)";
  w.apply = apply_compress_gradients;
  w.already = already_there;
  return w;
}

const Registered kRegistered(compress_gradients_whatif);

}  // namespace

}  // namespace foretrace::whatif
