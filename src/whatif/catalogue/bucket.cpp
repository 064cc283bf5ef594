#include <fmt/format.h>

#include "whatif/catalogue/catalogue.hpp"
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

WhatIf bucket_whatif() {
  WhatIf w = scheme_whatif("bucket");
  w.parameters.insert(w.parameters.begin(),
                      {"mb", "gradients reduced at once, MiB", "25", {}, ParameterType::kNumber, true, 0});
  w.about = "data parallel with another bucket size";
  w.assumes = "every worker computes what this one did";
  w.source = "PyTorch DistributedDataParallel(bucket_cap_mb)";
  w.not_modelled = "the spread of a real network";
  w.code = "DistributedDataParallel(model, bucket_cap_mb=…)";
  w.apply = apply_bucket;
  w.already = already_there;
  return w;
}

const Registered kRegistered(bucket_whatif);

}  // namespace

}  // namespace foretrace::whatif
