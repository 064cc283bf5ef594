#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/cluster_parameters.hpp"

namespace foretrace::whatif {

namespace {

Status apply_p3(Model& model, Draft& draft, const Parameters& parameters) {
  Strategy s;
  s.scheme = Scheme::kP3;
  s.slice_mb = parameters.number("slice_mb");
  s.priorities = parameters.text("priorities") == "on";
  FORETRACE_TRY(s.servers, servers_of(parameters));
  return apply_on_cluster(model, draft, parameters, s);
}

}  // namespace

WhatIf p3_whatif() {
  return {.name = "p3",
          .about = "parameter servers with slices and priorities: what the next forward pass needs first is sent first",
          .parameters =
              [] {
                std::vector<Parameter> all = cluster_parameters(false);
                all.push_back(servers_parameter());
                all.push_back({"slice_mb", "what is sent at once, MiB", "4", {}, ParameterType::kNumber, false, 0});
                all.push_back({"priorities",
                               "off: whole gradients, first come, first served",
                               "on",
                               {"on", "off"},
                               ParameterType::kText,
                               false,
                               0});
                return all;
              }(),
          .assumes = "updates at the servers, which add up as fast as a GPU like the worker's",
          .source = "P3 (Jayarajan et al. 2019); Daydream",
          .not_modelled = "the servers' own CPU time",
          .needs = "a backward pass; shapes",
          .code = "kvstore with priorities",
          .effort = Effort::kWork,
          .stage = Stage::kRuntime,
          .validated = false,
          .apply = apply_p3};
}

}  // namespace foretrace::whatif
