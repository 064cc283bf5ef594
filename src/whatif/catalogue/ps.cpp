#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {
namespace {

const Registered kRegistered(scheme_whatif(
    {.name = "ps",
     .about = "parameter servers: gradients are pushed, added up and pulled back",
     .parameters = {bucket_mb_parameter(), servers_parameter(),
                    slice_mb_parameter("buckets are cut into parts of this many MiB; 0: sent whole", "0")},
     .assumes = "servers add up as fast as a GPU like the worker's; all workers push at the same time",
     .source = "parameter servers (Li et al. 2014); BytePS; dPRO",
     .not_modelled = "servers that are late; sums over the GPUs of a node before they are pushed",
     .code = "model.register_comm_hook(state, push_and_pull)",
     .validated = true}));

}  // namespace
}  // namespace foretrace::whatif
