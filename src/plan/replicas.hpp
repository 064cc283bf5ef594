#pragma once
// The replicas of a plan: GPUs that hold the same parameters. They sum their gradients, and with ZeRO each keeps a share.
//
//   Replicas replicas(plan, groups, 0.9);                    // nine tenths of a block's parameters are those of experts
//   replicas.kept(replicas.held(1e9, blocks), 1);            // elements with optimizer states on one GPU
//
// With expert parallelism the GPUs of dp and cp hold different experts: those of one expert are in 1 / ep of these GPUs, which
// reduce and divide them among themselves.

#include <cstdint>

#include "plan/groups.hpp"
#include "plan/plan.hpp"

namespace foretrace::plan {

/// Elements of parameters on one GPU: what all replicas have, and the experts here.
struct Held {
  double common = 0, experts = 0;
  [[nodiscard]] double all() const { return common + experts; }
};

class Replicas {
 public:
  Replicas(const Plan& plan, Groups& groups, double expert_share);

  /// `expert_share` of a block's parameters are experts.
  [[nodiscard]] Held held(double elements, double block_elements) const;
  /// Elements each GPU keeps of what this stage of ZeRO divides: 1 states, 2 gradients, 3 parameters.
  [[nodiscard]] double kept(const Held& held, int stage) const;
  /// Whether gradients are summed over several GPUs.
  [[nodiscard]] bool reduce() const { return plan_.reduce && replicas_ > 1; }
  /// Whether states, and further stages with them, are divided.
  [[nodiscard]] bool divide() const { return plan_.zero > 0 && plan_.reduce && shard_ > 1; }

  /// Time in which gradients are summed, or every GPU gets all parameters, with so many bytes in an element and elements in a call.
  Ns reduction(const Held& held, double bytes, double call);
  Ns gather(const Held& held, double bytes, double call);
  /// Of log time: how far the collectives asked for so far may be off.
  [[nodiscard]] double sigma() const { return sigma_; }
  /// Thread blocks that they occupy on each GPU.
  [[nodiscard]] int channels() const { return channels_; }

 private:
  // Replicas of some parameters, those of them that divide their states, and how many GPUs apart they are.
  struct Ranks {
    std::int64_t replicas = 1, shard = 1, apart = 1;
  };
  [[nodiscard]] Ranks common() const;
  [[nodiscard]] Ranks experts() const;
  Ns cost(hardware::Collective kind, double bytes, std::int64_t ranks, std::int64_t apart);
  Ns reduce_over(const Ranks& ranks, double bytes);
  template <class Cost>
  static Ns in_calls(double elements, double call, const Cost& cost);

  const Plan& plan_;
  Groups& groups_;
  double expert_share_;
  std::int64_t replicas_, shard_;
  double sigma_ = 0;
  int channels_ = 0;
};

}  // namespace foretrace::plan
