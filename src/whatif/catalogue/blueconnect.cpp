#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/cluster_parameters.hpp"

namespace foretrace::whatif {

namespace {

Status apply_blueconnect(Model& model, Draft& draft, const Parameters& parameters) {
  Strategy s;
  s.scheme = Scheme::kBlueConnect;
  return apply_on_cluster(model, draft, parameters, s);
}

}  // namespace

WhatIf blueconnect_whatif() {
  return {.name = "blueconnect",
          .about = "all-reduce taken apart along the levels of the network, each a channel of its own",
          .parameters = cluster_parameters(true),
          .assumes = "levels work side by side",
          .source = "BlueConnect (Cho et al. 2019); Daydream",
          .not_modelled = "",
          .needs = "a backward pass; shapes",
          .code = "reduce-scatter inside nodes, all-reduce between, all-gather inside",
          .effort = Effort::kWork,
          .stage = Stage::kRuntime,
          .validated = true,
          .apply = apply_blueconnect};
}

}  // namespace foretrace::whatif
