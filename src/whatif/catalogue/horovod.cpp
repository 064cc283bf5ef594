#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {
namespace {

const Registered kRegistered(scheme_whatif(
    {.name = "horovod",
     .about = "data parallel by Horovod: a fusion buffer of gradients all-reduced every cycle",
     .parameters = {bucket_mb_parameter(),
                    {"cycle_ms", "how often the fusion buffer is flushed", "1", {}, ParameterType::kNumber, false, 0}},
     .assumes = "every worker computes what this one did",
     .source = "Horovod (Sergeev and Del Balso 2018); dPRO",
     .not_modelled = "the coordinator that agrees on what is ready",
     .code = "optimizer = horovod.torch.DistributedOptimizer(optimizer)",
     .validated = true}));

}  // namespace
}  // namespace foretrace::whatif
