#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {

namespace {

std::string already_there(const Model& m, const Parameters& p) {
  const std::shared_ptr<const StepFacts> has = step_facts(m);
  if (has->workers < 2 || has->sharded) return {};
  const std::string how = same_workers(*has, p);
  return how.empty() ? "" : "the step already runs data parallel " + how;
}

WhatIf ddp_whatif() {
  WhatIf w = scheme_whatif("ddp", {bucket_mb_parameter()});
  w.about = "data parallel: the same step on N workers, gradients all-reduced in buckets";
  w.assumes = "every worker computes what this one did";
  w.source = "PyTorch DistributedDataParallel; Daydream";
  w.not_modelled = "the spread of a real network";
  w.code = "model = DistributedDataParallel(model)";
  w.jax_code = "jax.device_put(batch, NamedSharding(mesh, P(\"data\")))  # parameters on every device";
  w.already = already_there;
  return w;
}

const Registered kRegistered(ddp_whatif);

}  // namespace

}  // namespace foretrace::whatif
