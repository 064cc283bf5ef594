#pragma once
// GPUs that share one replica, and their collectives at places of the step.

#include "whatif/parallel/builder.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {

/// `size`, and the network between them.
std::vector<Parameter> group_parameters();
/// WhatIf::check of those.
Status check_group(const Parameters& parameters);

class Group {
 public:
  /// Declined where the trace itself is of GPUs that communicate, or its kernels are those of a compiler.
  static Result<std::unique_ptr<Group>> make(Model& model, Draft& draft, const Parameters& parameters);

  [[nodiscard]] int size() const { return cluster_.workers; }

  /// A collective that the GPU's next work waits for.
  void meet(Place at, hardware::Collective kind, double bytes, Phase phase, const std::string& name);
  /// One that begins behind `from`; what follows `at` waits for it.
  void meet(Place from, Place at, hardware::Collective kind, double bytes, Phase phase, const std::string& name);

 private:
  Group(Model& model, Draft& draft, Network network, int size);

  Gradients stream_;
  Parallelism how_;
  Network network_;
  Cluster cluster_;
  Builder builder_;
};

}  // namespace foretrace::whatif
