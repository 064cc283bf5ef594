#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {

namespace {

WhatIf horovod_whatif() {
  WhatIf w = scheme_whatif(
      "horovod", {bucket_mb_parameter(),
                  {"cycle_ms", "how often the fusion buffer is looked at", "1", {}, ParameterType::kNumber, false, 0}});
  w.about = "data parallel by Horovod: a fusion buffer of gradients all-reduced every cycle";
  w.assumes = "every worker computes what this one did";
  w.source = "Horovod (Sergeev and Del Balso 2018); dPRO";
  w.not_modelled = "the coordinator that agrees on what is ready";
  w.code = "optimizer = horovod.torch.DistributedOptimizer(optimizer)";
  return w;
}

const Registered kRegistered(horovod_whatif);

}  // namespace

}  // namespace foretrace::whatif
