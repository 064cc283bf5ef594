#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {
namespace {

const Registered kRegistered(scheme_whatif(
    {.name = "blueconnect",
     .about = "all-reduce split along the levels of the network, each with a channel of its own",
     .parameters = {bucket_mb_parameter(),
                    slice_mb_parameter("buckets are cut into parts of this many MiB; 0: sent whole", "0")},
     .assumes = "levels work in parallel",
     .source = "BlueConnect (Cho et al. 2019); Daydream",
     .code = "reduce-scatter inside nodes, all-reduce between, all-gather inside",
     .validated = true}));

}  // namespace
}  // namespace foretrace::whatif
