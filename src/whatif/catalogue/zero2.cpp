#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {

namespace {

WhatIf zero2_whatif() {
  WhatIf w = scheme_whatif("zero2", {bucket_mb_parameter()});
  w.about = "optimizer states and gradients divided among N workers: gradients reduce-scattered, parameters gathered";
  w.assumes = "every worker updates an equal part of the parameters";
  w.source = "ZeRO (Rajbhandari et al. 2020), stage 2; DeepSpeed";
  w.not_modelled = "the spread of a real network";
  w.code = "deepspeed.initialize(model=model, config={\"zero_optimization\": {\"stage\": 2}})";
  return w;
}

const Registered kRegistered(zero2_whatif);

}  // namespace

}  // namespace foretrace::whatif
