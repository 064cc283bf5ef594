#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {
namespace {

const Registered kRegistered(scheme_whatif(
    {.name = "zero2",
     .about = "optimizer states and gradients divided among N workers: gradients reduce-scattered, parameters gathered",
     .parameters = {bucket_mb_parameter()},
     .assumes = "every worker updates an equal part of the parameters",
     .source = "ZeRO (Rajbhandari et al. 2020), stage 2; DeepSpeed",
     .not_modelled = "the spread of a real network",
     .code = "deepspeed.initialize(model=model, config={\"zero_optimization\": {\"stage\": 2}})",
     .validated = true}));

}  // namespace
}  // namespace foretrace::whatif
