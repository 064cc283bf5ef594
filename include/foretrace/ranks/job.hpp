#pragma once
// A job: the traces of its ranks, read together and put in order.
//
//   FORETRACE_TRY(ranks::Job job, ranks::load_job(files));
//   job.ranks[1].rank;  job.missing;  job.notes;
//
// Files that cannot take part (unreadable, of another job, a rank given twice) are left out with a note; what the others
// tell is answered.

#include <cstdint>
#include <string>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/steps.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::ranks {

struct Rank {
  std::int64_t rank = 0;  ///< as the trace says; its place among the files when none does
  trace::Trace trace;
  trace::Steps steps;
  std::string host;  ///< where the trace or its file's name tells it; else empty
};

struct Job {
  std::vector<Rank> ranks;  ///< by rank
  std::int64_t world_size = 0;
  std::vector<std::int64_t> missing;  ///< ranks of the job no trace was given of
  bool ranks_named = true;            ///< false: no trace says its rank; the order of the files counts
  std::vector<std::string> notes;     ///< what was left out or assumed, in sentences
};

/// Reads all files, several at a time; the result does not depend on how many. One entry per file.
std::vector<Result<trace::Trace>> load_all(const std::vector<std::string>& files, const trace::LoadOptions& options);

/// Puts traces of one job together. Declined when none is left.
Result<Job> assemble(std::vector<trace::Trace> traces);

/// What was read of each file put together. A file that cannot be read is a note as long as another can be, and an error
/// otherwise.
Result<Job> assemble(const std::vector<std::string>& files, std::vector<Result<trace::Trace>> read);
/// load_all and assemble.
Result<Job> load_job(const std::vector<std::string>& files, const trace::LoadOptions& options = {});

/// "0, 3-5 and 12 more": numbers, sorted, no longer than a line.
std::string list_of(const std::vector<std::int64_t>& numbers);

/// Whether the profiler numbered the steps of all ranks and the numbers meet: then they say which steps belong together.
bool steps_are_numbered(const Job& job);

}  // namespace foretrace::ranks
