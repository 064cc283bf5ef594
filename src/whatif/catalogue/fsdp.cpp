#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {
namespace {

const Registered kRegistered(scheme_whatif(
    {.name = "fsdp",
     .about = "fully sharded data parallel (ZeRO 3): parameters gathered before use, gradients reduce-scattered",
     .parameters = sharded_parameters(),
     .assumes = "every repeated block is a unit of its own",
     .source = "PyTorch fully_shard; ZeRO",
     .code = "for block in model.layers: fully_shard(block)",
     .jax_code = "jax.device_put(params, NamedSharding(mesh, P(\"data\")))  # and the batch",
     .code_for = sharded_code,
     .validated = true,
     .already = already_sharded}));

}  // namespace
}  // namespace foretrace::whatif
