#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/cluster_parameters.hpp"

namespace foretrace::whatif {

namespace {

Status apply_ddp(Model& model, Draft& draft, const Parameters& parameters) {
  Strategy s;
  return apply_on_cluster(model, draft, parameters, s);
}

}  // namespace

WhatIf ddp_whatif() {
  return {.name = "ddp",
          .about = "data parallel: the same step on N workers, gradients all-reduced in buckets",
          .parameters = cluster_parameters(true),
          .assumes = "every worker computes what this one did",
          .source = "PyTorch DistributedDataParallel; Daydream",
          .not_modelled = "the spread of a real network",
          .needs = "a backward pass; shapes",
          .code = "model = DistributedDataParallel(model)",
          .effort = Effort::kWork,
          .stage = Stage::kRuntime,
          .validated = true,
          .apply = apply_ddp};
}

}  // namespace foretrace::whatif
