#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {
namespace {

const Registered kRegistered(scheme_whatif(
    {.name = "zero3",
     .about = "ZeRO stage 3, which is fsdp: parameters, gradients and optimizer states divided among N workers",
     .parameters = sharded_parameters(),
     .assumes = "every repeated block is a unit of its own",
     .source = "ZeRO (Rajbhandari et al. 2020), stage 3; PyTorch fully_shard",
     .code = "for block in model.layers: fully_shard(block)",
     .jax_code = "jax.device_put(params, NamedSharding(mesh, P(\"data\")))  # and the batch",
     .code_for = sharded_code,
     .validated = true,
     .already = already_sharded}));

}  // namespace
}  // namespace foretrace::whatif
