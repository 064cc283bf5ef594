#pragma once
// What every what-if of the catalogue includes. A what-if is one file, found by the build, and ends with the object that makes
// it known to every command:
//
//   const Registered kRegistered({.name = "fused-optimizer", .about = …, .apply = apply_fused});

#include <functional>
#include <memory>
#include <string>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

struct JobModels;  // whatif/job/job_models.hpp
struct JobTies;

/// Adds a what-if to the catalogue before the program begins.
class Registered {
 public:
  explicit Registered(WhatIf whatif);
};

/// The change of one rank of a job, by its slot among the models.
using RankChange = std::function<Status(std::size_t slot, Model& model, Draft& draft)>;
/// What a what-if does to a job.
struct JobPlan {
  RankChange of_rank;
  std::shared_ptr<const JobTies> ties = nullptr;  ///< where the changed ranks synchronise; null: where they did
};
/// What a what-if does to a rank depends on the others: asked once per job, before any rank is changed. Declined where the job
/// as a whole says why.
using JobChange = Result<JobPlan> (*)(const JobModels& job, const Parameters& parameters);

/// Adds to a what-if how it changes a job. Those without it are made on each rank as on a single trace.
class RegisteredForJobs {
 public:
  RegisteredForJobs(std::string name, JobChange change);
};
/// Null: it needs nothing but the rank itself.
JobChange job_change_of(const WhatIf& whatif);

/// Why a what-if of jobs says nothing of one trace.
inline Status needs_a_job(std::string_view why) {
  return fail(ErrorCode::kDeclined, std::string(why) + "; give the traces of all ranks, or the folder they are in");
}

}  // namespace foretrace::whatif
