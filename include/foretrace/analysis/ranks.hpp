#pragma once
// ranks: all ranks of one job. Aligned clocks, who waits for whom, the step replayed over all ranks, and which ranks are
// stragglers.
//
//   FORETRACE_TRY(const ranks::Job job, ranks::load_job(files));
//   Result<RanksReport> r = analysis::analyse_ranks(job);      r->replayed;  r->ranks[2].wait;  r->stragglers;

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/base/types.hpp"
#include "foretrace/ranks/job.hpp"

namespace foretrace::analysis {

struct RanksOptions {
  std::optional<std::int64_t> step = {};  ///< the number in ProfilerStep#N; default the median of the common steps
  bool align = true;                      ///< false: clocks as recorded
  unsigned threads = 0;
  Progress progress = {};
};

struct RanksReport {
  std::string step;
  std::int64_t step_number = 0;
  std::vector<std::int64_t> steps;  ///< numbers of all the ranks have in common
  std::string step_source;
  std::int64_t world_size = 0;
  std::vector<std::int64_t> missing;

  struct RankRow {
    std::int64_t rank = 0;
    std::string file, host;
    ranks::Clock clock;
    bool in_step = false;            ///< false: the rank lacks this step
    Ns start = 0;                    ///< of its step, after the earliest rank's
    Ns step = 0, replayed = 0;       ///< its own step, on aligned clocks
    Ns wait = 0, transfer = 0;       ///< in collectives, as measured
    Ns replayed_wait = 0;            ///< as simulated
    std::uint64_t collectives = 0;   ///< in this step
    std::uint64_t arrived_last = 0;  ///< of them
    std::uint64_t unmatched = 0;     ///< communication kernels of the trace no other rank shows
    Ns critical = 0;                 ///< time of the critical path on it
    ranks::RankPlace place;          ///< its stage, compute and bubble
  };
  std::vector<RankRow> ranks;

  struct CollectiveRow {
    std::string kind, group;
    std::int64_t bytes = -1;
    std::uint64_t members = 0;
    Ns arrival = 0;       ///< of the last rank, after the step's begin
    Ns transfer = 0;      ///< the last arriver's, which waits for nobody
    Ns longest_wait = 0;  ///< of the first
    Ns total_wait = 0;    ///< of all ranks together
    Ns start_spread = 0, end_spread = 0;
    std::int64_t last = 0;            ///< the rank that arrived last
    std::int64_t from = -1, to = -1;  ///< of a message; -1 of collectives
    std::vector<std::int64_t> rank;
    std::vector<Ns> wait, rank_transfer;  ///< per member
  };
  std::vector<CollectiveRow> collectives;

  ranks::JobKind kind;
  bool connected = false;                  ///< some rank communicates with another: false is no job
  Ns traced = 0, replayed = 0;             ///< from the first rank's begin to the last one's end
  Ns job_step = 0, job_step_replayed = 0;  ///< the job's step: the mean over the ranks of their own
  double error_pct = 0;
  std::uint64_t tasks = 0, dependencies = 0;

  ranks::Clocks clocks;
  struct Impossible {
    std::string what;
    Ns by = 0;
  };
  std::vector<Impossible> impossible;

  ranks::Stragglers stragglers;

  /// Stretches of the critical path, from the begin to the end of the step.
  struct PathPart {
    std::int64_t rank = -1;  ///< -1: between ranks, a transfer
    std::string on;          ///< "Thread 400", "GPU 0 stream 7", the group
    std::string longest;     ///< the task that takes most of it
    std::string why;         ///< what it waited for first: "launch", "collective"
    Ns start = 0, length = 0;
    std::uint64_t tasks = 0;
  };
  std::vector<PathPart> path;

  std::vector<std::string> notes, not_modelled;
};

/// Fails when the step does not exist (kUsage) or no rank has a step (kDeclined).
Result<RanksReport> analyse_ranks(const ranks::Job& job, const RanksOptions& options = {});

/// The same of traces that nobody else looks at: what was read of a rank is let go as soon as its part of the job's graph is there, so that
/// a job of many ranks takes little more memory than its traces.
Result<RanksReport> analyse_ranks(const std::vector<std::string>& files, const trace::LoadOptions& load,
                                  const RanksOptions& options = {});

/// One step of all ranks, for report::export_ranks and the page. Fails as analyse_ranks does.
struct RanksStep;  // src/analysis/ranks_step.hpp
Result<std::shared_ptr<const RanksStep>> open_ranks_step(const ranks::Job& job, const RanksOptions& options = {});
/// The report of a step that is open already.
RanksReport ranks_report(const ranks::Job& job, const RanksStep& step, const RanksOptions& options = {});

}  // namespace foretrace::analysis
