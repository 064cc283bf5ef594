#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/cluster_parameters.hpp"

namespace foretrace::whatif {

namespace {

Status apply_bucket(Model& model, Draft& draft, const Parameters& parameters) {
  Strategy s;
  s.bucket_mb = parameters.number("mb");
  s.first_bucket_mb.reset();
  return apply_on_cluster(model, draft, parameters, s);
}

}  // namespace

WhatIf bucket_whatif() {
  return {.name = "bucket",
          .about = "data parallel with another bucket size",
          .parameters =
              [] {
                std::vector<Parameter> all = cluster_parameters(false);
                all.insert(all.begin(),
                           {"mb", "gradients reduced at once, MiB", "25", {}, ParameterType::kNumber, true, 0});
                return all;
              }(),
          .assumes = "every worker computes what this one did",
          .source = "PyTorch DistributedDataParallel(bucket_cap_mb)",
          .not_modelled = "the spread of a real network",
          .needs = "a backward pass; shapes",
          .code = "DistributedDataParallel(model, bucket_cap_mb=…)",
          .effort = Effort::kWork,
          .stage = Stage::kRuntime,
          .validated = true,
          .apply = apply_bucket};
}

}  // namespace foretrace::whatif
