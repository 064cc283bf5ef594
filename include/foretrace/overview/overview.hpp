#pragma once
// Everything foretrace can say about one step, and about the ranks of its job, computed once. The HTML page only renders it: steps are
// found, the graph is built and changes are predicted here and nowhere in report/.
//
//   FORETRACE_TRY(const Overview all, make_overview(trace, {.whatifs = {"amp"}}));
//   all.summary.gpu_time;  all.best->step;

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/analysis/gpus.hpp"
#include "foretrace/analysis/ranks.hpp"
#include "foretrace/analysis/replay.hpp"
#include "foretrace/analysis/summary.hpp"
#include "foretrace/search/optimize.hpp"

namespace foretrace::overview {

struct OverviewOptions {
  std::optional<std::int64_t> step = {};  ///< the number in ProfilerStep#N; default the median step
  host::UserMeasurements measurements = {};
  std::vector<std::string> whatifs = {};  ///< predicted alone and stacked; none: the best combination found is stacked
  std::string fabric = {};                ///< network of the scaling curve; empty: the one the GPU is usually sold with
  std::vector<analysis::ListedPrice> price_list = {};  ///< of other GPUs; overrides the device files
  unsigned threads = 0;
  const ranks::Job* job = nullptr;  ///< all ranks of the job that the trace belongs to; must outlive the overview
};

/// What the kernels of one operation, family and element type compute and move, and how long they take.
struct OperationWork {
  std::string operation;  ///< "aten::mm"; empty when the trace names none
  std::string family, dtype;
  double flops = 0, bytes = 0, ns = 0;
  std::size_t kernels = 0;
  /// The rate it reaches, relative to the GPU's roofline at this many FLOP per byte. Nothing when it multiplies nothing, or a peak is unknown.
  std::optional<double> share_of_roof;
};

/// The step of a job with what-ifs made on its ranks, simulated together.
struct ChangedJob {
  analysis::ReplayedStep step;  ///< of all ranks
  struct Rank {
    std::int64_t number = 0;
    std::vector<std::uint32_t> lanes;       ///< of the graph
    std::vector<std::pair<Ns, Ns>> bubble;  ///< no compute kernel runs while a receive is under way
  };
  std::vector<Rank> ranks;
  /// A rank's part of a collective. It arrives, waits until the transfer starts, and finishes with its tail, the next task.
  struct Member {
    std::uint32_t rank;                    ///< index into ranks
    std::uint32_t arrive, tail, transfer;  ///< tasks
  };
  struct Meeting {
    std::string name;  ///< "dp all-reduce"; empty: unknown
    std::vector<Member> members;
  };
  std::vector<Meeting> meetings;
  bool pipeline = false;
};

/// One step of all ranks of a job.
struct JobOverview {
  const ranks::Job* job = nullptr;
  analysis::RanksReport report;
  std::shared_ptr<const analysis::RanksStep> step;
  std::optional<analysis::Baseline> baseline =
      {};                     ///< all ranks without the profiler; nothing where that cannot be predicted
  std::string declined = {};  ///< why not; empty for one rank, or where it can
  std::vector<whatif::Prediction> alone = {};   ///< the changes asked for, each made on all ranks
  std::optional<whatif::Prediction> best = {};  ///< all of them together; nothing asked: the best combination found
  std::optional<search::Advised> advised = {};  ///< nothing for graphs too large to search
  std::optional<ChangedJob> changed = {};       ///< the step with `best`; nothing for graphs too large to search
};

struct Overview {
  const trace::Trace* trace = nullptr;  ///< must outlive this
  analysis::SummaryReport summary;
  std::optional<analysis::ReplayedStep> traced;  ///< the step simulated unchanged; nothing when no graph could be built
  std::string declined;                          ///< why nothing can be predicted; then everything below is empty

  std::optional<analysis::Baseline> baseline;
  std::vector<whatif::Prediction> alone;  ///< the changes asked for, each alone
  std::optional<search::Advised> advised;
  bool stack_was_asked = false;
  std::vector<whatif::Use> stack;                     ///< changes of `best`, in order
  std::vector<std::pair<std::string, Ns>> waterfall;  ///< the step after each change of the stack
  std::optional<whatif::Prediction> best;             ///< the whole stack; its graph is in `predicted`
  std::optional<analysis::ReplayedStep> predicted;    ///< of `best`, else the step without the profiler
  std::optional<analysis::GpusReport> gpus;           ///< nothing when the GPU is unknown
  std::optional<analysis::ScaleReport> scale;         ///< nothing when gradients or network are unknown
  std::vector<analysis::Slider> sliders;
  std::vector<OperationWork> operations;  ///< most time first
  std::optional<JobOverview> job;         ///< nothing for one rank, or when the ranks cannot be shown together
  std::string no_job;                     ///< why not; empty when no job was given, or it is shown

  [[nodiscard]] Ns today() const { return baseline->figures.measured.value_or(baseline->figures.unprofiled); }
};

/// Larger graphs are not searched: the changes asked for, or a few common ones, are predicted instead.
inline constexpr std::size_t kLargestSearched = 60'000;

/// Fails when the step or a what-if does not exist (kUsage), or the trace holds no step (kDeclined).
Result<Overview> make_overview(const trace::Trace& trace, const OverviewOptions& options);

/// One step to export: as traced, or with what-ifs applied.
struct ExportableStep {
  analysis::ReplayedStep step;
  bool has_events = true;  ///< false: read back from an exported file, so the events behind the tasks are not at hand
};
/// `step`: its number, else the median step. `whatifs`: all together; none: the step as traced. Declined when the step cannot be
/// simulated or changed.
Result<ExportableStep> exportable_step(const trace::Trace& trace, const trace::Steps& steps,
                                       std::optional<std::int64_t> step = {},
                                       const std::vector<std::string>& whatifs = {});

/// `only`: the ranks that change; none: all. Declined as predictions of a job are.
Result<ChangedJob> changed_job(const ranks::Job& job, std::optional<std::int64_t> step,
                               const std::vector<std::string>& whatifs, const std::vector<std::int64_t>& only = {});
/// The same from a model of the job that is at hand, and the recorded step behind it.
Result<ChangedJob> changed_job(const analysis::Baseline& baseline, const analysis::RanksStep& recorded,
                               const std::vector<whatif::Use>& uses);

}  // namespace foretrace::overview
