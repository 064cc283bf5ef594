#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/cluster_parameters.hpp"
#include "whatif/whole_number.hpp"

namespace foretrace::whatif {

namespace {

Status apply_compress_gradients(Model& model, Draft& draft, const Parameters& parameters) {
  Strategy s;
  FORETRACE_TRY(s.compression, parse_compression(parameters.text("method")));
  s.ratio = parameters.number("ratio");
  s.rank = static_cast<int>(parameters.number("rank"));
  return apply_on_cluster(model, draft, parameters, s);
}

}  // namespace

WhatIf compress_gradients_whatif() {
  return {.name = "compress-gradients",
          .about = "gradients compressed before they are reduced, with what compressing costs",
          .parameters =
              [] {
                std::vector<Parameter> all = cluster_parameters(true);
                all.insert(all.begin(), {"method",
                                         "how",
                                         "fp16",
                                         {"fp16", "powersgd", "topk", "dgc", "qsgd", "terngrad"},
                                         ParameterType::kText,
                                         false,
                                         0});
                all.push_back(
                    {"ratio", "share of elements top-k and DGC send", "0.01", {}, ParameterType::kNumber, false, 0});
                all.push_back({"rank", "of PowerSGD", "1", {}, ParameterType::kNumber, false, 0, whole_number<>});
                return all;
              }(),
          .assumes = "training converges all the same",
          .source = "DGC, QSGD, TernGrad, PowerSGD, top-k; PyTorch communication hooks",
          .not_modelled = "convergence",
          .needs = "a backward pass; shapes",
          .code = "model.register_comm_hook(state, hook)",
          .effort = Effort::kWork,
          .stage = Stage::kRuntime,
          .validated = true,
          .apply = apply_compress_gradients};
}

}  // namespace foretrace::whatif
