#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {

namespace {

Status apply_bucket(Model& model, Draft& draft, const Parameters& parameters) {
  ParallelChoice choice = choice_of(parameters, "ddp");
  choice.bucket_mb = parameters.number("mb");
  return apply_on_cluster(model, draft, parameters, choice);
}

WhatIf bucket_whatif() {
  WhatIf w = scheme_whatif("bucket");
  w.parameters.insert(w.parameters.begin(),
                      {"mb", "gradients reduced at once, MiB", "25", {}, ParameterType::kNumber, true, 0});
  w.about = "data parallel with another bucket size";
  w.assumes = "every worker computes what this one did";
  w.source = "PyTorch DistributedDataParallel(bucket_cap_mb)";
  w.not_modelled = "the spread of a real network";
  w.code = "DistributedDataParallel(model, bucket_cap_mb=…)";
  w.apply = apply_bucket;
  return w;
}

const Registered kRegistered(bucket_whatif);

}  // namespace

}  // namespace foretrace::whatif
