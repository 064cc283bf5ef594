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
#include <string_view>
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

// Clocks of a job: how far each rank's clock is ahead of the first rank's, and how much faster it runs.
//
// Every matched collective says two things. Nobody can end before everybody it waits for has started: a difference
// constraint between two clocks. And the transfer, from the last arrival to the end, takes as long on all ranks, and as
// long in every step: the offsets sought are those with the least variance of the transfers (families weighed by how
// well they agree) that break no constraint, and those of one host should agree. That is the problem dPRO's paper states,
// as a quadratic programme with the constraints added as they are violated.

struct Clock {
  Ns offset = 0;           ///< this clock is ahead of the first rank's by so much, at `reference`
  double drift_ppm = 0;    ///< and gains so much
  Ns reference = 0;        ///< on this clock
  Ns uncertainty = 0;      ///< standard error of the offset
  bool known = true;       ///< false: no collective ties this rank to the first; the clock is taken as it is
  std::uint32_t host = 0;  ///< ranks of one number share a clock

  /// The first rank's clock when this one shows t.
  [[nodiscard]] Ns aligned(Ns t) const;
};

/// An order no setting of the clocks explains.
struct Impossible {
  std::uint32_t collective;
  std::uint32_t late, early;  ///< ranks (indices): `early` ended before `late`, which it waits for, had started
  Ns by;
};

struct Clocks {
  std::vector<Clock> clocks;  ///< per rank of the job
  Ns end_spread = 0;      ///< how far apart ranks end the same collective on aligned clocks: median over collectives
  Ns raw_end_spread = 0;  ///< the same on the clocks as written
  std::uint64_t violations_before = 0;  ///< collectives in an impossible order on the clocks as written
  std::vector<Impossible> impossible;   ///< those left: contradictory measurements, worst first
  bool drift_fitted = false;
  std::uint32_t hosts = 0;
};

// Stragglers: ranks (or links) that hold the job up, why, and what the step would cost without.
//
// Each rank is compared with the typical one, cause by cause: the rank whose total is the (lower) median. For a rank that
// is slower, the typical rank's costs are put in place of its own and the job is simulated again; the difference is what
// this cause costs. Nothing is guessed from names of ranks or from thresholds on durations.

enum class StragglerCause : std::uint8_t {
  kSlowKernel,  ///< its GPU takes longer for the same kernels
  kLateLaunch,  ///< its CPU takes longer for the same operations
  kDataLoader,  ///< its input comes late
  kLateStart,   ///< it began the step after the others
  kSlowLink,    ///< transfers take longer than the same transfers elsewhere
};
std::string_view to_string(StragglerCause cause);
inline constexpr std::size_t kStragglerCauses = 5;

struct Straggler {
  std::uint32_t rank = 0;  ///< index into Job::ranks; of a slow link, the rank whose transfers are slow
  StragglerCause cause = StragglerCause::kSlowKernel;
  Ns cost = 0;    ///< how much longer this alone makes a job of otherwise typical ranks
  Ns saves = 0;   ///< how much shorter the job would be if only this went: less than `cost` when others are late too
  Ns excess = 0;  ///< how much longer its work of this kind is than the typical rank's
  std::uint32_t like = 0;  ///< the typical rank it is compared with
  std::string worst;       ///< the task that adds most to the excess
  Ns worst_excess = 0;
};

struct Stragglers {
  std::vector<Straggler> found;  ///< those that cost at least kNotable of the step, dearest first
  Ns step = 0;                   ///< simulated, as it is
  Ns without_any = 0;            ///< simulated, every rank as fast as the typical one
  /// Below this share of the step a difference between ranks is noise, and nothing is said of it.
  static constexpr double kNotable = 0.01;
  Ns clock_error = 0;  ///< the largest by which somebody was not named: differences below it may be the clocks'
};

}  // namespace foretrace::ranks
