#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {

namespace {

WhatIf zero3_whatif() {
  WhatIf w = scheme_whatif("zero3", {version_parameter()});
  w.about = "ZeRO stage 3, which is fsdp: parameters, gradients and optimizer states divided among N workers";
  w.assumes = "every repeated block is a unit of its own";
  w.source = "ZeRO (Rajbhandari et al. 2020), stage 3; PyTorch fully_shard";
  w.code = "for block in model.layers: fully_shard(block)";
  w.jax_code = "jax.device_put(params, NamedSharding(mesh, P(\"data\")))  # and the batch";
  w.already = already_sharded;
  return w;
}

const Registered kRegistered(zero3_whatif);

}  // namespace

}  // namespace foretrace::whatif
