#pragma once
// Every step of a trace simulated unchanged and set beside what was traced, and the step as it runs without the
// profiler.
//
// The graph keeps the device's own distances (gaps, latencies) as measured, so that meeting the trace is necessary and not
// much more. Two figures say more: the replay without the distances no rule explains, and the costs of one step put into
// the graph of another.
//
//   Result<TraceReplay> all = replay(trace, trace::find_steps(trace));
//   all->steps[0].error_pct;  all->unprofiled.step;
//
// All figures are in ns here, in ms and us in text and JSON.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/base/types.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/host/unprofiled.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/steps.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::analysis {

struct ReplayOptions {
  std::optional<std::int64_t> step;  ///< only the step named ProfilerStep#N; default all
  std::optional<double>
      measured_ms;  ///< the step without the profiler; default what the recorder stored, else the prior
  Progress progress;
  /// What the CPU costs there; default what the recorder stored, else the usual.
  std::optional<host::HostCosts> host = {};
};

struct TraceReplay {
  std::string file;
  std::string format;
  std::string step_source;  ///< "ProfilerStep ranges"
  std::optional<std::int64_t> rank, world_size;
  bool from_export = false;  ///< the graph was in the file; nothing was built

  struct StepRow {
    std::string name;
    std::int64_t number = 0;
    Ns traced = 0, replayed = 0;
    double error_pct = 0;  ///< signed: negative where the replay is shorter than the trace
    /// Where the GPU runs behind the CPU, the distance of the same work in two steps; else the range. Nothing without a
    /// neighbouring step.
    std::optional<Ns> period;
    std::optional<double> period_error_pct;
    bool behind = false;      ///< the step's work on the GPU outlives its range
    bool ramp_up = false;     ///< its range is shorter than the period: the CPU still runs away from the GPU
    simulate::Limits limits;  ///< whether the graph can move
    /// Distance of simulated from measured starts of GPU tasks, step begin on step begin; nothing without such tasks.
    std::optional<Ns> start_error_p50, start_error_p95;
    /// The same without what no rule explains: lags of more than 20 us are kept as measured above, here they are not.
    /// Nothing when the graph was in the file.
    std::optional<Ns> strict_replayed;
    std::optional<double> strict_error_pct;
    /// This step's costs in the graph of another step, which then has to give this step's length. Nothing where no other
    /// step does the same work: where more than 2 % of the tasks have no partner.
    std::optional<double> cross_error_pct;
    std::string cross_step;
    std::string cross_missing;          ///< why there is no such figure
    std::uint64_t cross_unmatched = 0;  ///< tasks without a partner in the other step
    std::uint32_t copies = 1;           ///< steps simulated in a row until the period repeated
    bool settled = true;                ///< it did
    std::uint64_t tasks = 0, dependencies = 0, gpu_tasks = 0;
    graph::Graph::Notes notes;
    simulate::Breakdown breakdown;
    simulate::LowerBounds bounds;
  };
  std::vector<StepRow> steps;
  struct LeftOut {
    std::string name, reason;
  };
  std::vector<LeftOut> left_out;  ///< steps that could not be replayed
  std::size_t chosen = 0;         ///< index into steps of the median one, which the rest speaks of

  host::Unprofiled unprofiled;
  std::optional<Ns> measured;    ///< the real step, where known
  std::string measured_refused;  ///< why the figure the recorder stored is not used; empty when it is, or there is none
  std::string bottleneck;        ///< of the step as traced
  std::string unprofiled_bottleneck;

  [[nodiscard]] double mean_abs_error_pct() const;
  /// What the builder could not explain or left out, summed over the steps; counts of the whole trace taken once.
  [[nodiscard]] graph::Graph::Notes notes() const;
};

/// Fails when the step asked for does not exist (kUsage) or no step can be replayed (kDeclined).
Result<TraceReplay> replay(const trace::Trace& trace, const trace::Steps& steps, const ReplayOptions& options = {});

}  // namespace foretrace::analysis
