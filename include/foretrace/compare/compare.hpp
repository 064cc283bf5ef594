#pragma once
// Compares two recordings of one program, before and after a change: is the step slower by more than noise, and what caused it?
// Steps are matched by the work they do, never by time.
//
//   FORETRACE_TRY(const Comparison c, compare({&trace}, {&trace}));
//   c.change_pct;  c.noise_pct;  c.beyond_noise();       // the step
//   for (const Cause& cause : c.causes) cause.what;      // the causes: how the step is run, kernels, CPU, waits, memory
//
// A side may have several recordings of the same program: their spread is then the noise. With one recording per side, the noise is
// that of unchanged programs recorded repeatedly (src/compare/noise, written by tools/compare_accuracy.py).

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/base/types.hpp"
#include "foretrace/host/measured_step.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/trace.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::ranks {
struct Job;
}

namespace foretrace::compare {

/// Which figure of the step is compared.
enum class DecidedBy : std::uint8_t {
  kUser,       ///< what the user measured on both sides
  kRecorded,   ///< what the recorder measured without the profiler, on both sides
  kTraced,     ///< the traced steps, profiler included
  kEstimated,  ///< the step without the profiler, estimated from the trace on both sides
};
std::string_view to_string(DecidedBy decided);

/// One side: its recordings, and the step they show.
struct Side {
  std::vector<std::string> files;
  std::vector<std::string> steps;  ///< the step of each file that is shown
  std::string device;
  std::optional<std::int64_t> rank;
  Ns step = 0;              ///< the figure that decides: median over steps, mean over files
  Ns traced = 0;            ///< as traced
  std::optional<Ns> clean;  ///< without the profiler, where known
  Ns gpu_time = 0;          ///< sum of kernels and copies
  Ns cpu_time = 0;          ///< work of all threads, as traced
  std::optional<std::int64_t> peak_bytes;
  std::uint64_t launches = 0;       ///< kernels and copies of a step
  std::uint64_t syncs = 0;          ///< calls that wait for the GPU
  simulate::Bottleneck bottleneck;  ///< of the first file's step, without the profiler
};

enum class CauseKind : std::uint8_t {
  kSetup,    ///< how the step is run: precision, optimizer, layout, workers …
  kKernels,  ///< the same work on the GPU, slower or faster
  kWork,     ///< work that is there on one side only
  kCpu,      ///< work of the CPU
  kWaits,    ///< waiting
  kMemory,
  kRecording,  ///< how it was recorded
};
std::string_view to_string(CauseKind kind);

/// Something that differs, beyond noise.
struct Cause {
  CauseKind kind = CauseKind::kKernels;
  std::string what;      ///< "mixed precision: products in FP16 instead of FP32"
  std::string where;     ///< the layers, operations or kernels that show it most; may be empty
  Ns time = 0;           ///< after less before: GPU time of kernels, CPU time of CPU work
  std::string whatif;    ///< the change of the catalogue that it is, "amp"; empty when it is none
  double noise_pct = 0;  ///< of the part that differs
};

/// A change and its noise, in percent; positive is longer.
struct Change {
  double pct = 0;
  double noise_pct = 0;              ///< a change by this factor, up or down, may be chance
  double low_pct = 0, high_pct = 0;  ///< the interval of 95 %; of 99 % with one recording per side
  double p_value = 1;                ///< probability that chance alone gives a change this large
};

/// Whether chance does not account for the change.
inline bool beyond(const Change& c) {
  const double faster = c.pct < 0 && c.pct > -100 ? 100 * (1 / (1 + c.pct / 100) - 1) : 0;
  return c.pct > c.noise_pct || faster > c.noise_pct;
}

/// A part of the step, judged by its own noise.
struct Part {
  std::string name;          ///< "GPU work", "CPU work", "communication", "waits"
  Ns before = 0, after = 0;  ///< time of one step
  Change change;
  double step_pct = 0;  ///< the change of the step if only this part changed
};

enum class Outcome : std::uint8_t {
  kPassed,        ///< the step is not slower by more than the gate, within a noise that is small
  kFailed,        ///< slower by more than the gate, beyond noise
  kInconclusive,  ///< these recordings cannot tell
};
std::string_view to_string(Outcome outcome);

/// A part of the step on both sides. Times and counts are of one step.
struct Row {
  std::string name;
  Ns before = 0, after = 0;
  double before_count = 0, after_count = 0;
  std::vector<std::string> families = {};  ///< of a kernel: the families of work it does
  [[nodiscard]] Ns change() const { return after - before; }
};
struct Tables {
  std::vector<Row> phases, cpu_phases, families, layers, operations, cpu_operations, kernels;  ///< largest change first
};

/// BEFORE predicted with a change, and AFTER as measured.
struct Verdict {
  whatif::Prediction prediction;  ///< declined: nothing was predicted
  Ns step = 0;                    ///< as measured
  std::optional<double> step_error_pct, gpu_error_pct, memory_error_pct;
  bool inside_band = false;
  struct Family {
    std::string name;
    Ns predicted = 0, measured = 0;
  };
  std::vector<Family> families;  ///< most GPU time first
  /// log(measured / predicted) by family of errors, as whatif::Residuals keeps them.
  std::vector<whatif::Residuals::Row> residuals;
  std::string device;  ///< on which BEFORE was recorded: whose built-in residuals these belong to
};

struct Comparison {
  Side before, after;
  DecidedBy decided = DecidedBy::kTraced;
  std::string decided_why;           ///< "only one side has the recorder's figure"; empty where no reason is needed
  double change_pct = 0;             ///< of the step; positive is slower
  double noise_pct = 0;              ///< a step slower by this, or faster by as large a factor, may be noise
  double low_pct = 0, high_pct = 0;  ///< the interval of the change
  double p_value = 1;                ///< probability that chance alone gives a change this large
  std::string noise_from;            ///< in words
  std::vector<Cause> causes;         ///< most important first
  Tables tables;
  double matched_share = 0;  ///< of both sides' GPU time: work found on the other side, same kernel and sizes
  std::vector<Part> parts;
  Change from_parts;  ///< of the step, as it follows from the parts
  std::optional<double> gate_pct;
  std::optional<Outcome> outcome;  ///< with a gate
  bool decided_by_parts = false;   ///< the outcome follows from the parts, which say more than the step's own figure
  Change decisive;                 ///< of the step: the change that the outcome rests on
  /// Inconclusive: recordings per side that would decide if change and spread stayed the same; nothing: more than is practical.
  std::optional<std::size_t> recordings_needed;
  std::optional<Verdict> verdict;  ///< of Options::whatif; where only the GPU differs and nothing is asked, of the move

  [[nodiscard]] bool beyond_noise() const { return beyond({.pct = change_pct, .noise_pct = noise_pct}); }
  /// Nothing differs: neither the step nor any part of it.
  [[nodiscard]] bool same() const { return !beyond_noise() && causes.empty(); }
};

struct Options {
  std::optional<std::int64_t> step;           ///< on both sides
  std::optional<double> before_ms, after_ms;  ///< the step without the profiler, as the user measured it
  std::optional<host::HostCosts> host;
  std::optional<double> gate_pct;
  std::vector<whatif::Use> whatif;  ///< BEFORE with these, stacked, against AFTER
  std::shared_ptr<const whatif::Residuals>
      residuals;      ///< behind the band of that prediction; null: the built-in ones of BEFORE's device
  std::string model;  ///< the name residuals go by; empty: that of BEFORE's file
};

/// One or more recordings a side, none null. Declined where a side holds no step with work in it.
Result<Comparison> compare(const std::vector<const trace::Trace*>& before,
                           const std::vector<const trace::Trace*>& after, const Options& options = {});

// Two recordings of one job, all ranks of each: which rank, group or collective changed, and by how much?
//
// Ranks wait for each other, so every rank's step changes when one does. A rank is named by its own work: GPU and CPU time as
// `compare` judges them for one rank. Groups and collectives are named by their transfers, from the last arrival on.

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
