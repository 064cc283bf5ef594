#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {
namespace {

const Registered kRegistered(sharded_whatif(
    "fsdp", "fully sharded data parallel (ZeRO 3): parameters gathered before use, gradients reduce-scattered",
    "PyTorch fully_shard; ZeRO"));

}  // namespace
}  // namespace foretrace::whatif
