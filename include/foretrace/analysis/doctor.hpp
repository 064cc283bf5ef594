#pragma once
// doctor: what a trace holds, what is missing, and what each gap costs a prediction.
//
//   DoctorReport report = examine(trace, trace::find_steps(trace));
//   std::string text = report::to_text(report, style);  // or report::to_json(report)
//
// Metadata of a trace may hold host names, user names and access tokens. Only values of keys known to be harmless
// (versions, profiler flags) enter a report; the rest is counted.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/base/result.hpp"
#include "foretrace/base/types.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::analysis {

/// How much a finding matters.
enum class Weight : std::uint8_t {
  kBlocks,  ///< predictions cannot be made from this trace
  kCosts,   ///< predictions are less accurate, or some kinds of prediction are missing
  kNote,    ///< good to know
};
/// "blocks", "costs", "note".
std::string_view to_string(Weight weight);

/// Something that is missing from a trace, or odd about it.
struct Finding {
  std::string name;  ///< stable, for scripts: "no_shapes"
  Weight weight = Weight::kNote;
  std::string what;         ///< "operations carry no input shapes"
  std::string cost;         ///< what it costs a prediction, in plain words
  std::string remedy;       ///< how to record a better trace; may be empty
  std::uint64_t count = 0;  ///< how many events it concerns; 0 when it is not about single events
};

struct DoctorReport {
  std::string file;
  std::string format;             ///< "kineto"
  std::uint64_t input_bytes = 0;  ///< uncompressed
  std::uint64_t events = 0;
  bool partial = false;
  Ns span = 0;  ///< from the first to the last event that has a time

  struct Count {
    std::string name;
    std::uint64_t count = 0;
  };
  std::vector<Count> kinds;       ///< events by kind ("kernel", "cpu_op"), most frequent first
  std::vector<Count> categories;  ///< events by category as spelled in the file, most frequent first

  std::uint64_t cpu_threads = 0;  ///< lanes with events
  std::uint64_t gpu_streams = 0;
  std::uint64_t other_lanes = 0;
  std::vector<std::int64_t> processes;  ///< ids of processes with operations or runtime calls
  struct Device {
    std::int64_t id = 0;
    std::string name;  ///< empty when the trace does not tell
    std::optional<std::int64_t> memory_bytes, sm_count;
    std::string compute_capability;  ///< "9.0"; empty when unknown
    std::uint64_t gpu_events = 0;    ///< kernels, copies and fills on it
  };
  /// Devices with work; the others the file describes are in idle_devices.
  std::vector<Device> devices;
  std::uint64_t idle_devices = 0;

  /// A process group that this rank communicates in.
  struct Group {
    std::string name;                 ///< its description where it has one
    std::vector<std::int64_t> ranks;  ///< of the job; empty: the file does not say
    friend auto operator<=>(const Group&, const Group&) = default;
  };
  std::vector<Group> groups;
  std::vector<std::int64_t> numbered_steps;  ///< that the profiler numbered, ascending

  bool distributed = false;  ///< the file carries distributedInfo
  std::optional<std::int64_t> rank, world_size;
  std::string backend, nccl_version;

  std::vector<std::pair<std::string, std::string>> versions;  ///< {"CUDA runtime", "13.0"}
  std::vector<std::string> profiler_flags;                    ///< those recorded as on: "record_shapes"
  std::uint64_t other_metadata = 0;                           ///< top-level keys whose values are not shown
  /// What our recorder stored, each value as JSON: {"measured_ms", "71.6"}. Empty when it did not make the trace.
  std::vector<std::pair<std::string, std::string>> recorder;

  struct StepRow {
    std::string name;
    std::int64_t number = 0;
    Ns duration = 0;
    Ns waited = 0;      ///< left out of the duration: waiting for work that is not in the file
    bool cold = false;  ///< start-up work makes up a notable part of it
  };
  std::vector<StepRow> steps;
  std::string step_kind;        ///< of the median step: "training", "decode", …; empty without one
  std::string step_source;      ///< "ProfilerStep ranges"
  std::string steps_marked_by;  ///< which ranges, where names decided; else empty
  std::vector<trace::StepCandidate> step_candidates;  ///< ranges that could mark steps, for --steps-by

  /// The median step, built and simulated unchanged: what a prediction would start from.
  struct Replay {
    std::string step;
    Ns traced = 0, replayed = 0;
    double error_pct = 0;
    std::uint64_t tasks = 0, dependencies = 0;
    graph::Graph::Notes notes;
    simulate::Limits limits;
    Ns hand_overs = 0;         ///< of the frozen time: between threads
    std::optional<Ns> period;  ///< where the GPU runs behind the CPU
    StepVerdict verdict;
    bool ramp_up = false;
    bool outlasts = false;     ///< the GPU still works when the range ends, and no later step shows for how long
    std::string cold_refusal;  ///< why nothing is predicted from the step; empty when something is
    /// Distances of more than 50 us without a cause, longest first: "4.8 ms in front of X on GPU 0 stream 7".
    std::vector<std::string> unexplained_waits;
  };
  std::optional<Replay> replay;  ///< nothing when no graph could be built

  /// A what-if that a program or plugin added, and which of its needs this trace does not serve.
  struct AddedWhatIf {
    std::string name;
    std::vector<std::string> missing;  ///< empty: it can be asked
  };
  std::vector<AddedWhatIf> added_whatifs;

  std::vector<Finding> findings;  ///< heaviest first
  std::vector<Problem> problems;  ///< bad records, as the importer counted them
  std::uint64_t lost_records = 0;

  [[nodiscard]] const Finding* find(std::string_view name) const;
  [[nodiscard]] std::size_t count(Weight weight) const;
  /// One sentence: "Good for predictions; 2 things to know.", "No predictions: …".
  [[nodiscard]] std::string verdict() const;
  /// Whether anything can be predicted from this trace.
  [[nodiscard]] bool predicts() const { return events > 0 && count(Weight::kBlocks) == 0; }
};

DoctorReport examine(const trace::Trace& trace, const trace::Steps& steps);

/// What several traces are together.
struct TraceSet {
  std::size_t files = 0;
  std::vector<std::int64_t> ranks;          ///< present, sorted
  std::vector<std::int64_t> missing_ranks;  ///< of the world the files speak of
  std::vector<std::int64_t> repeated_ranks;
  std::size_t without_rank = 0;
  std::optional<std::int64_t> world_size;
  bool communicates = false;  ///< some rank communicates
  struct Lacking {
    std::string group;                         ///< name or description
    std::vector<std::int64_t> ranks, missing;  ///< that belong to it, and those without a file
  };
  std::vector<Lacking> lacking;             ///< process groups some of whose ranks have no file
  std::vector<std::int64_t> shorter_ranks;  ///< that lack steps which others have
  /// "8 files, ranks 0-7 of 8: complete."
  [[nodiscard]] std::string sentence() const;
};
/// Looks at all reports together; a finding "one rank of N" is withdrawn where the set holds all ranks.
TraceSet examine_set(std::vector<DoctorReport>& reports);

}  // namespace foretrace::analysis
