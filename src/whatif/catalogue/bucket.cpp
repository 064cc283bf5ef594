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
  choice.order = parameters.text("order");
  return apply_on_cluster(model, draft, parameters, choice);
}

// A job reduces its gradients already: over the network it was recorded on, between as many workers.
Result<JobPlan> apply_to_job(const JobModels&, const Parameters& parameters) {
  constexpr double kMiB = 1 << 20;
  const auto bytes = static_cast<std::int64_t>(parameters.number("mb") * kMiB);
  FORETRACE_TRY(const Parallelism how, make_parallelism({.order = parameters.text("order")}));
  return JobPlan{[bytes, order = how.order](std::size_t, Model& model, Draft& draft) {
    return rebucket(model, draft, bytes, order);
  }};
}

// Known by how many buckets there are: one more or less is the small first one that DDP has by default.
std::string already_there(const Model& m, const Parameters& p) {
  const std::shared_ptr<const StepFacts> has = step_facts(m);
  if (p.text("order") != "ready") return {};  // which order it has no number of buckets tells
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
  // Where parameters may be unused, the buckets of the first step stay; else they are rebuilt as gradients become ready.
  const char* const order = p.text("order") == "reverse" ? ", find_unused_parameters=True" : "";
  return fmt::format("DistributedDataParallel(model, bucket_cap_mb={:g}{})", p.number("mb"), order);
}

const Registered kRegistered(scheme_whatif({.name = "bucket",
                                            .about = "data parallel with another bucket size or order of buckets",
                                            .parameters = {{.name = "mb",
                                                            .about = "gradients reduced at once, MiB",
                                                            .default_value = "25",
                                                            .type = ParameterType::kNumber,
                                                            .required = true},
                                                           {.name = "order",
                                                            .about = "of gradients in them: as they become ready (DDP "
                                                                     "behind its first step), parameters from the "
                                                                     "last one (DDP's first step), or from the first",
                                                            .default_value = "ready",
                                                            .choices = bucket_orders()}},
                                            .assumes = "every worker computes what this one did; parameters are in the "
                                                       "order in which the forward pass uses them",
                                            .source = "PyTorch DistributedDataParallel(bucket_cap_mb)",
                                            .not_modelled = "the spread of a real network",
                                            .code = "DistributedDataParallel(model, bucket_cap_mb=…)",
                                            .code_for = code_for,
                                            .validated = true,
                                            .apply = apply_bucket,
                                            .already = already_there,
                                            .unvalidated = {"order=reverse", "order=forward"},
                                            .explains = {{Difference::kOtherBuckets}}}));
const RegisteredForJobs kOnJobs("bucket", apply_to_job);

}  // namespace
}  // namespace foretrace::whatif
