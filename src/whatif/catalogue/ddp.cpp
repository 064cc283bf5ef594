#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {

namespace {

WhatIf ddp_whatif() {
  WhatIf w = scheme_whatif("ddp", {bucket_mb_parameter()});
  w.about = "data parallel: the same step on N workers, gradients all-reduced in buckets";
  w.assumes = "every worker computes what this one did";
  w.source = "PyTorch DistributedDataParallel; Daydream";
  w.not_modelled = "the spread of a real network";
  w.code = "model = DistributedDataParallel(model)";
  return w;
}

const Registered kRegistered(ddp_whatif);

}  // namespace

}  // namespace foretrace::whatif
