#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/cluster_parameters.hpp"

namespace foretrace::whatif {

namespace {

Status apply_fsdp(Model& model, Draft& draft, const Parameters& parameters) {
  Strategy s;
  s.scheme = Scheme::kFsdp;
  return apply_on_cluster(model, draft, parameters, s);
}

}  // namespace

WhatIf fsdp_whatif() {
  return {.name = "fsdp",
          .about = "fully sharded data parallel (ZeRO 3): parameters gathered before use, gradients reduce-scattered",
          .parameters = cluster_parameters(false),
          .assumes = "every repeated block is a unit of its own",
          .source = "PyTorch fully_shard; ZeRO",
          .not_modelled = "",
          .needs = "a backward pass; shapes",
          .code = "for block in model.layers: fully_shard(block)",
          .effort = Effort::kWork,
          .stage = Stage::kRuntime,
          .validated = true,
          .apply = apply_fsdp};
}

}  // namespace foretrace::whatif
