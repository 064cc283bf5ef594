#include <fmt/format.h>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {
namespace {

std::string already_there(const Model& m, const Parameters& p) {
  const std::shared_ptr<const StepFacts> has = step_facts(m);
  if (has->workers < 2 || has->sharded) return {};
  const std::string how = same_workers(*has, p);
  return how.empty() ? "" : "the step already runs data parallel " + how;
}

std::string code_for(const Parameters& p, bool /*training*/) {
  if (!p.given("bucket_mb")) return {};
  return fmt::format("model = DistributedDataParallel(model, bucket_cap_mb={:g})", p.number("bucket_mb"));
}

const Registered kRegistered(
    scheme_whatif({.name = "ddp",
                   .about = "data parallel: the same step on N workers, gradients all-reduced in buckets",
                   .parameters = {bucket_mb_parameter()},
                   .assumes = "every worker computes what this one did",
                   .source = "PyTorch DistributedDataParallel; Daydream",
                   .not_modelled = "the spread of a real network",
                   .code = "model = DistributedDataParallel(model)",
                   .jax_code = "jax.device_put(batch, NamedSharding(mesh, P(\"data\")))  # parameters on every device",
                   .code_for = code_for,
                   .validated = true,
                   .already = already_there}));

}  // namespace
}  // namespace foretrace::whatif
