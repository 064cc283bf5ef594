#pragma once
// Times of communication in one step, per process group: waiting, transfer, and exposed time.

#include <vector>

#include "foretrace/ranks/job.hpp"
#include "hardware/collective.hpp"
#include "ranks/collectives.hpp"
#include "ranks/group_role.hpp"
#include "ranks/intervals.hpp"
#include "ranks/job_graph.hpp"
#include "ranks/program_order.hpp"

namespace foretrace::ranks {

class Traffic {
 public:
  /// `fabric` may be null.
  Traffic(const Job& job, const Matching& matching, const JobGraph& graph, const ProgramOrder& order,
          const hardware::CollectiveModel* fabric);

  /// Fills in what a group moves for one role: operations, bytes and times.
  void measure(const Role& role, JobGroup& group) const;
  /// Moments at which a compute kernel runs on a rank (index), on the trace's own clock.
  [[nodiscard]] const Intervals& computing(std::uint32_t rank) const { return computing_[rank]; }
  /// Moments without a compute kernel while a receive is under way.
  [[nodiscard]] Intervals bubble(std::uint32_t rank) const;

 private:
  struct Times {
    Ns wait, transfer;
  };
  [[nodiscard]] Times times(std::uint32_t rank, const Act& act) const;
  [[nodiscard]] double modelled(const GroupOperation& op, std::size_t ranks) const;

  const Job& job_;
  const Matching& m_;
  const ProgramOrder& order_;
  const hardware::CollectiveModel* fabric_;
  std::vector<std::vector<std::pair<std::uint32_t, Times>>> measured_;  // per rank: by kernel
  std::vector<Intervals> computing_;
};

}  // namespace foretrace::ranks
