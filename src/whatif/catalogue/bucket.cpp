#include <fmt/format.h>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/job/rebucket.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/parallel/builder.hpp"
#include "whatif/parallel/gradients.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {
namespace {

Status apply_bucket(Model& model, Draft& draft, const Parameters& parameters) {
  ParallelChoice choice = choice_of(parameters, "ddp");
  choice.bucket_mb = parameters.number("mb");
  return apply_on_cluster(model, draft, parameters, choice);
}

// A job reduces its gradients already: over the network it was recorded on, between as many workers.
Result<JobPlan> apply_to_job(const JobModels&, const Parameters& parameters) {
  constexpr double kMiB = 1 << 20;
  const auto bytes = static_cast<std::int64_t>(parameters.number("mb") * kMiB);
  return JobPlan{[bytes](std::size_t, Model& model, Draft& draft) { return rebucket(model, draft, bytes); }};
}

// Known by how many buckets there are: one more or less is the small first one that DDP has by default.
std::string already_there(const Model& m, const Parameters& p) {
  const std::shared_ptr<const StepFacts> has = step_facts(m);
  if (has->workers < 2 || has->sharded || has->reductions == 0 || same_workers(*has, p).empty()) return {};
  const Result<Gradients> gradients = find_gradients(m);
  if (!gradients) return {};
  Parallelism how;
  how.bucket_mb = p.number("mb");
  how.first_bucket_mb.reset();
  const std::size_t asked = plan_of(*gradients, how).size();
  if (asked != has->reductions && asked + 1 != has->reductions) return {};
  return fmt::format("the step already reduces its gradients in {} buckets", has->reductions);
}

std::string code_for(const Parameters& p, bool /*training*/) {
  return fmt::format("DistributedDataParallel(model, bucket_cap_mb={:g})", p.number("mb"));
}

const Registered kRegistered(scheme_whatif({.name = "bucket",
                                            .about = "data parallel with another bucket size",
                                            .parameters = {{.name = "mb",
                                                            .about = "gradients reduced at once, MiB",
                                                            .default_value = "25",
                                                            .type = ParameterType::kNumber,
                                                            .required = true}},
                                            .assumes = "every worker computes what this one did",
                                            .source = "PyTorch DistributedDataParallel(bucket_cap_mb)",
                                            .not_modelled = "the spread of a real network",
                                            .code = "DistributedDataParallel(model, bucket_cap_mb=…)",
                                            .code_for = code_for,
                                            .validated = true,
                                            .apply = apply_bucket,
                                            .already = already_there,
                                            .explains = {{Difference::kOtherBuckets}}}));
const RegisteredForJobs kOnJobs("bucket", apply_to_job);

}  // namespace
}  // namespace foretrace::whatif
