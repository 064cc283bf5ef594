#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {
namespace {

const Registered kRegistered(scheme_whatif(
    {.name = "p3",
     .about = "parameter servers with slices and priorities: what the next forward pass needs first is sent first",
     .parameters = {servers_parameter(),
                    slice_mb_parameter("what is sent at once, MiB", "4"),
                    {"send_us", "CPU time of sending a slice", "25", {}, ParameterType::kNumber, false, 0},
                    {"sender",
                     "which thread sends slices: one of its own, or the training thread between its launches",
                     "thread",
                     {"thread", "training"}},
                    {"priorities", "off: whole gradients, first come, first served", "on", {"on", "off"}}},
     .assumes = "updates at the servers, which add up as fast as a GPU like the worker's",
     .source = "P3 (Jayarajan et al. 2019); Daydream",
     .not_modelled = "the servers' own CPU time",
     .code = "kvstore with priorities",
     .validated = true,
     .unvalidated = {"sender=thread"}}));

}  // namespace
}  // namespace foretrace::whatif
