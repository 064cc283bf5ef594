#pragma once
// GPUs that share one replica, and their collectives at places of the step.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

  struct Meeting {
    Place from;  ///< it begins behind this
    Place at;    ///< what follows this on the GPU waits for it; the same place where nothing overlaps it
    hardware::Collective kind = hardware::Collective::kAllReduce;
    double bytes = 0;
    Phase phase = Phase::kForward;
    std::string name = {};
    int times = 1;  ///< messages one behind the other, as in a ring that computes between them
    /// Copies into another order, in front of it and behind it.
    std::optional<work::Work> before = {}, behind = {};
  };
  /// Adds a collective, in any order. One at an unknown place is ignored.
  void add_collective(Meeting meeting);
  /// Writes all of them into the draft, in the order of the stream.
  void finish();
  /// Gradients of parameters that all GPUs of the group have are summed over them, in buckets that overlap backward, as
  /// DistributedDataParallel does it. `own`: which each GPU has of its own (experts).
  Status reduce_gradients(const std::function<bool(const Gradient&)>& own = {});

 private:
  Group(Model& model, Draft& draft, Network network, int size);

  std::uint32_t put(const Meeting& meeting, Place& from);
  void copy(Place& at, const Meeting& meeting, const work::Work& work);

  Model& m_;
  Draft& draft_;
  Gradients stream_;
  Parallelism how_;
  Network network_;
  Cluster cluster_;
  Builder builder_;
  std::vector<Meeting> meetings_;
};

}  // namespace foretrace::whatif
