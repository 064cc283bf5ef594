#pragma once
// Baseline: the step that predictions start from. It is built once from the step's graph and passed to every verb, the search
// and Python. What-ifs change copies of its model.
//
//   FORETRACE_TRY(const Baseline today, make_baseline(trace, {}, {}));      // the median step; the recorder's measurement
//   today.figures.unprofiled;      // ns: the step without the profiler
//   FORETRACE_TRY(const whatif::Use use, whatif::parse_use("fused-optimizer"));
//   predict(today, {use}).step;

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/host/measured_step.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/trace.hpp"
#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::ranks {
struct Job;
}

namespace foretrace::analysis {

// The graphs of a trace's steps: built from its events, or read back from a file that `foretrace export` wrote.
//
//   FORETRACE_TRY(const StepGraphs graphs, StepGraphs::open(trace, trace::find_steps(trace)));
//   FORETRACE_TRY(const graph::Graph graph, graphs.graph(graphs.median()));
/// The top-level key of an exported file that holds the text form of its graph.
inline constexpr std::string_view kGraphKey = "foretraceGraph";

class StepGraphs {
 public:
  /// The trace must outlive the result. Fails when the file claims to hold a graph and it cannot be read.
  static Result<StepGraphs> open(const trace::Trace& trace, trace::Steps steps);

  /// The steps of the trace; of an exported file, the one it shows.
  [[nodiscard]] const trace::Steps& steps() const { return *steps_; }
  /// The default step: the median of those that are not ramp-up. There must be a step.
  [[nodiscard]] std::size_t median() const { return builder_ ? builder_->median() : 0; }
  /// The step of that number, else the median one. Fails when there is no such step (kUsage) or none at all (kDeclined).
  [[nodiscard]] Result<std::size_t> choose(std::optional<std::int64_t> number) const;
  /// Whether the graph was read from the file. Its event ids then refer to the trace it was built from.
  [[nodiscard]] bool embedded() const { return embedded_.has_value(); }
  /// Whether start-up work makes up a notable part of the step; its graph is without it.
  [[nodiscard]] bool cold(std::size_t step) const { return builder_ && builder_->cold(step); }
  /// Declined when the step holds no work. A graph read from the file is returned unchanged, whatever the options.
  [[nodiscard]] Result<graph::Graph> graph(std::size_t step, const graph::BuildOptions& options = {}) const;

 private:
  StepGraphs(std::string file, trace::Steps steps)
      : file_(std::move(file)), steps_(std::make_unique<trace::Steps>(std::move(steps))) {}

  std::string file_;                     // for errors
  std::unique_ptr<trace::Steps> steps_;  // the builder points to it
  std::optional<graph::Graph> embedded_;
  std::optional<graph::GraphBuilder> builder_;
};

/// The graph an exported file holds; an error when it holds none.
Result<graph::Graph> embedded_graph(const trace::Trace& trace);

/// What limits the step: without the profiler, which is the step that every answer is about, and as traced. Computed
/// once for all reports.
struct StepVerdict {
  simulate::Bottleneck unprofiled, traced;
};
/// `traced`: the graph as built. `unprofiled`: the same with the profiler's time taken off.
StepVerdict step_verdict(const trace::Trace& trace, const graph::Graph& traced, const graph::Graph& unprofiled);

/// The job a trace is one rank of. What-ifs change this rank alone.
struct OneRank {
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t>
      ranks;  ///< of the job; nothing when the trace shows communication but not among how many ranks
  /// "rank 3 of 8 alone: …"
  [[nodiscard]] std::string sentence() const;
};
/// Nothing when the step belongs to no job.
std::optional<OneRank> one_rank_of_job(const trace::Trace& trace, const graph::Graph& graph);

/// The job a step belongs to, where all its ranks are simulated together.
struct JobFigures {
  std::int64_t world_size = 0;
  std::vector<std::int64_t> missing;  ///< ranks without a trace, or without this step
  std::vector<whatif::RankTime> ranks;
  std::int64_t fullest_rank = 0;   ///< the one whose memory is shown
  std::vector<std::string> notes;  ///< what was left out or assumed
};

/// The figures of a step that every report shows.
struct StepFigures {
  std::string file;
  std::string step_name;
  std::string device;
  Ns traced = 0, replayed = 0, unprofiled = 0, unprofiled_low = 0, unprofiled_high = 0;
  std::optional<Ns> period;  ///< when the GPU lags behind the CPU: time between the same work in two steps
  std::optional<Ns> measured;
  std::string measured_refused;  ///< why the recorder's measurement is not used; empty when it is, or there is none
  graph::Startup startup;        ///< start-up work that was taken out of the step
  Ns allocator = 0;              ///< in calls that allocate driver memory and free it again in every step
  std::string steadiness;        ///< what is not steady about the step, in one or two sentences; empty: nothing
  std::optional<std::int64_t> peak_bytes;
  std::optional<std::int64_t> reserved_bytes;  ///< what the allocator took from the GPU for that peak
  std::optional<memory::Composition> peak_parts;
  double memory_gb = 0;  ///< of the GPU; 0 when unknown
  std::vector<whatif::FamilyTime> gpu_families;
  StepVerdict verdict;
  std::optional<OneRank> one_rank;
  std::optional<JobFigures> job;
};

struct Baseline {
  whatif::Model model;  ///< points to the trace, which must outlive it
  StepFigures figures;
};

/// `step`: its number, else the median step. `measurements`: the user's, else what the recorder stored in the trace.
Result<Baseline> make_baseline(const trace::Trace& trace, std::optional<std::int64_t> step,
                               const host::UserMeasurements& measurements);
/// The same from the graph of `step`, already built from the trace.
Result<Baseline> make_baseline(const trace::Trace& trace, const trace::Step& step, const graph::Graph& graph,
                               const host::UserMeasurements& measurements);

/// The step of a job, all ranks together: every rank has a model like that of a single trace, in which a collective costs its transfer
/// alone; waiting for other ranks follows from the simulation. Predictions from it apply a change to every rank, or to those that `only`
/// names. `measurements` are of the job's step. The traces must outlive the result. Declined when they are not of one job, have no
/// step in common, or when the step of a rank cannot serve as a baseline.
Result<Baseline> make_baseline(const ranks::Job& job, std::optional<std::int64_t> step,
                               const host::UserMeasurements& measurements, const std::vector<std::int64_t>& only = {});

/// Each text as a use of a what-if: "amp", "batch:x=2".
Result<std::vector<whatif::Use>> parse_uses(const std::vector<std::string>& texts);

/// Predicts the step with all changes applied together, from its measured time where that is known.
whatif::Prediction predict(const Baseline& baseline, const std::vector<whatif::Use>& uses,
                           whatif::Detail detail = whatif::Detail::kFull);

}  // namespace foretrace::analysis
