#pragma once
// What the what-ifs for several workers share: parameters, and how they become workers, a network and a scheme.

#include "foretrace/whatif/parallel.hpp"
#include "whatif/model/step_facts.hpp"

namespace foretrace::whatif {

/// The value of `fabric` that stands for the network this GPU is usually sold with.
inline constexpr const char* kDefaultFabric = "usual";
/// The check of `fabric`: a wrong name is reported before the trace is read.
Status check_fabric(const std::string& name);
/// fabric, collectives, collectives_tag, gpus_per_node.
std::vector<Parameter> network_parameters();
/// The network they name; without a name the GPU's usual one, which is noted in the model.
Result<Network> chosen_network(Model& model, const Parameters& parameters);
/// workers, fabric, collectives, collectives_tag, gpus_per_node, slow_worker, ring_steps.
std::vector<Parameter> cluster_parameters();
/// Those of single schemes.
Parameter bucket_mb_parameter();
Parameter servers_parameter();

Parameter slice_mb_parameter(std::string about, std::string otherwise);

/// What parameters say that every scheme understands, written into `choice`; those of single schemes where the what-if has
/// them.
ParallelChoice choice_of(const Parameters& parameters, std::string parallel);

/// Applies a choice on the cluster the parameters name.
Status apply_on_cluster(Model& model, Draft& draft, const Parameters& parameters, const ParallelChoice& choice);

/// A what-if that is one scheme, as PyTorch or a paper does it. `described` has its name, which is the scheme's, its sentences and
/// the parameters it has in addition to those of the cluster; the rest is filled in, `apply` too where it is not given.
WhatIf scheme_whatif(WhatIf described);

/// "over 8 workers …" of a job that has as many as are asked for, or no other number is: without one it is the job as it is.
/// Empty where the parameters ask for something else.
std::string same_workers(const StepFacts& has, const Parameters& parameters);
/// The scheme that shards parameters, under one of its names.
WhatIf sharded_whatif(std::string name, std::string about, std::string source);

}  // namespace foretrace::whatif
