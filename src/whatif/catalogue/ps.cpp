#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/cluster_parameters.hpp"

namespace foretrace::whatif {

namespace {

Status apply_ps(Model& model, Draft& draft, const Parameters& parameters) {
  Strategy s;
  s.scheme = Scheme::kPs;
  FORETRACE_TRY(s.servers, servers_of(parameters));
  if (parameters.number("slice_mb") > 0) s.slice_mb = parameters.number("slice_mb");
  return apply_on_cluster(model, draft, parameters, s);
}

}  // namespace

WhatIf ps_whatif() {
  return {.name = "ps",
          .about = "parameter servers: gradients are pushed, added up and pulled back",
          .parameters =
              [] {
                std::vector<Parameter> all = cluster_parameters(true);
                all.push_back(servers_parameter());
                all.push_back({"slice_mb",
                               "buckets are cut into parts of this many MiB; 0: sent whole",
                               "0",
                               {},
                               ParameterType::kNumber,
                               false,
                               -1});
                return all;
              }(),
          .assumes = "servers add up as fast as a GPU like the worker's; all workers push at the same time",
          .source = "parameter servers (Li et al. 2014); BytePS; dPRO",
          .not_modelled = "servers that are late; sums over the GPUs of a node before they are pushed",
          .needs = "a backward pass; shapes",
          .code = "model.register_comm_hook(state, push_and_pull)",
          .effort = Effort::kWork,
          .stage = Stage::kRuntime,
          .validated = true,
          .apply = apply_ps};
}

}  // namespace foretrace::whatif
