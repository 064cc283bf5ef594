#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {

namespace {

WhatIf zero1_whatif() {
  WhatIf w = scheme_whatif("zero1", {bucket_mb_parameter()});
  w.about = "optimizer states divided among N workers: gradients all-reduced, updated parameters gathered";
  w.assumes = "every worker updates an equal part of the parameters";
  w.source = "ZeRO (Rajbhandari et al. 2020), stage 1; PyTorch ZeroRedundancyOptimizer";
  w.not_modelled = "the spread of a real network";
  w.code = "optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=lr)";
  return w;
}

const Registered kRegistered(zero1_whatif);

}  // namespace

}  // namespace foretrace::whatif
