#pragma once
// The purpose of a process group, from what it communicates.

#include <vector>

#include "foretrace/ranks/job.hpp"
#include "ranks/group_use.hpp"

namespace foretrace::ranks {

/// One thing a group does, and by which kinds of operations. A group of all ranks may do several: experts and data, say.
struct Role {
  Parallelism kind = Parallelism::kOther;
  bool reduces = false, gathers = false, scatters = false, exchanges = false, sends = false;
  [[nodiscard]] bool has(CollectiveKind operation) const;
};

struct Roles {
  std::vector<Role> roles;
  bool sequence_parallel = false;  ///< tensor parallel that gathers and scatters
  int zero = 0;                    ///< as JobKind
};

/// `job_total`: what all groups move. `in_pipeline`: its messages tie stages, rather than a ring. `description`: "mesh_tp".
Roles roles_of(const GroupUse& use, double job_total, bool in_pipeline, std::string_view description);

}  // namespace foretrace::ranks
