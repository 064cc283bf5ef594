#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {
namespace {

const Registered kRegistered(scheme_whatif(
    {.name = "zero1",
     .about = "optimizer states divided among N workers: gradients all-reduced, updated parameters gathered",
     .parameters = {bucket_mb_parameter()},
     .assumes = "every worker updates an equal part of the parameters",
     .source = "ZeRO (Rajbhandari et al. 2020), stage 1; PyTorch ZeroRedundancyOptimizer",
     .not_modelled = "the spread of a real network",
     .code = "optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=lr)",
     .validated = true}));

}  // namespace
}  // namespace foretrace::whatif
