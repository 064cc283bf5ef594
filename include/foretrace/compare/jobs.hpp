#pragma once
// Compares two recordings of one job, all ranks of each: which rank, group or collective changed, and by how much?
//
//   FORETRACE_TRY(const JobComparison c, compare_jobs(before, after));
//   c.change.pct;  c.changed_ranks();       // the job's step, and the ranks whose own work changed
//
// Ranks wait for each other, so every rank's step changes when one does. A rank is named by its own work: GPU and CPU time as
// `compare` judges them for one rank. Groups and collectives are named by their transfers, from the last arrival on.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/analysis/ranks.hpp"
#include "foretrace/compare/compare.hpp"
#include "foretrace/ranks/job.hpp"

namespace foretrace::compare {

struct JobSide {
  std::vector<std::string> files;
  std::vector<std::int64_t> ranks, missing;
  std::vector<std::int64_t> steps;  ///< numbers of those that all ranks recorded
  std::string step_name, device;
  std::string parallel;  ///< "tp2 dp4", as in ranks::JobKind
  Ns step = 0;           ///< the figure that decides: mean over the ranks
  Ns traced = 0;
  std::optional<std::int64_t> peak_bytes;  ///< of the fullest rank
  std::int64_t fullest_rank = 0;
};

/// A time of the job on both sides.
struct TimeChange {
  Ns before = 0, after = 0;
  Change change;
  bool named = false;  ///< beyond noise, and notable in the step
  [[nodiscard]] Ns difference() const { return after - before; }
};

struct RankChange {
  std::int64_t rank = 0;
  Comparison own;  ///< its two traces compared like those of a single program
  Ns wait_before = 0, wait_after = 0;
  Ns bubble_before = 0, bubble_after = 0;
  bool named = false;  ///< its own GPU or CPU work changed beyond noise, and with it its step
  /// What its own work does to its step.
  double own_pct = 0;
};

struct GroupChange {
  std::string kind, name;  ///< "dp", "mesh_dp"
  std::vector<std::int64_t> ranks;
  std::uint64_t before_operations = 0, after_operations = 0;  ///< 0: the group is on one side only
  double before_bytes = 0, after_bytes = 0;
  Ns wait_before = 0, wait_after = 0;
  Ns exposed_before = 0, exposed_after = 0;
  TimeChange transfer;
};

/// Collectives of one kind and size among the same ranks, together.
struct CollectiveChange {
  std::string kind, group;
  std::int64_t bytes = -1;
  std::vector<std::int64_t> ranks;
  std::uint64_t before_count = 0, after_count = 0;
  Ns wait_before = 0, wait_after = 0;  ///< of all ranks together
  TimeChange transfer;
};

/// BEFORE's job predicted with a change, and AFTER as it is.
struct JobVerdict {
  whatif::Prediction prediction;
  std::optional<double> step_error_pct, memory_error_pct;
  bool inside_band = false;
};

struct JobComparison {
  JobSide before, after;
  DecidedBy decided = DecidedBy::kTraced;
  Change change;  ///< of the job's step
  std::string noise_from;
  std::vector<RankChange> ranks;              ///< those on both sides, by rank
  std::vector<GroupChange> groups;            ///< largest change of its transfers first
  std::vector<CollectiveChange> collectives;  ///< the same
  std::vector<Cause> causes;                  ///< how all ranks are run: precision, optimizer, …
  std::optional<double> gate_pct;
  std::optional<Outcome> outcome;
  std::optional<std::size_t> recordings_needed;
  std::optional<JobVerdict> verdict;
  std::vector<std::string> notes;  ///< what differs between the recordings and was not compared

  [[nodiscard]] bool beyond_noise() const { return beyond(change); }
  [[nodiscard]] std::vector<const RankChange*> changed_ranks() const;  ///< most first
};

/// `options.before_ms` and `after_ms` are of the job's step. Declined when a side is no job, or no rank is on both.
Result<JobComparison> compare_jobs(const ranks::Job& before, const ranks::Job& after, const Options& options = {});

}  // namespace foretrace::compare
