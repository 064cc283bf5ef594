#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {

namespace {

WhatIf fsdp_whatif() {
  WhatIf w = scheme_whatif("fsdp", {version_parameter()});
  w.about = "fully sharded data parallel (ZeRO 3): parameters gathered before use, gradients reduce-scattered";
  w.assumes = "every repeated block is a unit of its own";
  w.source = "PyTorch fully_shard; ZeRO";
  w.code = "for block in model.layers: fully_shard(block)";
  w.jax_code = "jax.device_put(params, NamedSharding(mesh, P(\"data\")))  # and the batch";
  w.already = already_sharded;
  w.unvalidated = {"version=1"};
  return w;
}

const Registered kRegistered(fsdp_whatif);

}  // namespace

}  // namespace foretrace::whatif
