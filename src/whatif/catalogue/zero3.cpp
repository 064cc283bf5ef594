#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {
namespace {

const Registered kRegistered(sharded_whatif(
    "zero3", "ZeRO stage 3, which is fsdp: parameters, gradients and optimizer states divided among N workers",
    "ZeRO (Rajbhandari et al. 2020), stage 3; PyTorch fully_shard"));

}  // namespace
}  // namespace foretrace::whatif
