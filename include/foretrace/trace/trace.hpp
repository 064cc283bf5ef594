#pragma once
// Trace: what a profiler wrote, as columns. Read-only after the import.
//
// One row per event of the file, in the order of the file (also for metadata and flow rows, so that counts per category
// equal those of the file; only a B and its E are one row, an X). Columns every event has are dense; what only some kinds
// carry lives in side tables reached through `side`. Strings and argument tuples are interned. 51 bytes an event, 75 for
// operations and ranges, 91 for memory events, and the texts.
//
//   for (std::uint32_t e = 0; e < trace.size(); ++e) {
//     if (trace.kind(e) != EventKind::kKernel) continue;
//     trace.name(e);  trace.events.start[e];
//     if (const KernelLaunch* launch = trace.launch(e)) launch->grid[0];     // nothing where the file does not say it
//   }

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/base/types.hpp"

namespace foretrace::trace {

// What an event is, independent of how a profiler's version spelled it ("Operator", "cpu_op" and "hpu_op" are all
// kOp). The spelling itself is kept too: Trace::categories.

enum class EventKind : std::uint8_t {
  kOp,             ///< framework operation on a CPU thread (aten::mm, autograd nodes)
  kAnnotation,     ///< user range on a CPU thread (ProfilerStep#N, layer:…, Optimizer.step#…)
  kRuntime,        ///< CUDA/HIP runtime or driver call
  kKernel,         ///< GPU kernel
  kMemcpy,         ///< GPU copy
  kMemset,         ///< GPU fill
  kGpuAnnotation,  ///< user range projected onto a GPU stream
  kSync,           ///< CUPTI synchronisation record (Stream Sync, Stream Wait Event, …)
  kCudaEvent,      ///< CUPTI event record
  kPython,         ///< Python frame or nn.Module call
  kMemory,         ///< allocator event: [memory]
  kOverhead,       ///< the profiler's own cost, Command Buffer Full
  kFlowStart,      ///< flow arrow, tail
  kFlowEnd,        ///< flow arrow, head
  kCounter,        ///< counter sample
  kSpan,           ///< the profiler's own span rows ("Trace")
  kInstant,        ///< other instants (Iteration Start, Record Window End)
  kMetadata,       ///< names and sort order of processes and threads
  kOther,          ///< anything else, kept with its category
  kCount
};

/// "kernel", "cpu_op", …: stable names for JSON and Python.
std::string_view to_string(EventKind kind);
/// Traces before 2022 write the framework's ranges under the category of operations; their names tell them apart.
constexpr bool is_range_among_ops(std::string_view name) {
  for (const std::string_view start :
       {"ProfilerStep#", "enumerate(DataLoader)", "Optimizer.", "DistributedDataParallel.", "layer:"}) {
    if (name.starts_with(start)) return true;
  }
  return false;
}
/// From the `cat` of an event of Chrome phase `ph`; knows the old, new, ROCm, XPU and MTIA spellings.
EventKind event_kind(std::string_view category, char ph, std::string_view name);

constexpr bool is_gpu_work(EventKind k) {
  return k == EventKind::kKernel || k == EventKind::kMemcpy || k == EventKind::kMemset;
}
/// Kinds that are on a GPU stream's row rather than on a CPU thread's.
constexpr bool is_gpu_row(EventKind k) {
  return is_gpu_work(k) || k == EventKind::kGpuAnnotation || k == EventKind::kSync || k == EventKind::kCudaEvent;
}

// Arguments of events. What differs on every event (ids, addresses) lives in columns and side tables of the trace;
// everything else is a tuple that repeats (launch geometry, shapes, collective metadata), is stored once, and is decoded
// into typed rows once per distinct tuple rather than once per event.

/// Marks an integer argument that the event did not carry.
inline constexpr std::int64_t kAbsent = INT64_MIN;

/// Launch geometry and placement of a kernel, copy or fill.
struct KernelLaunch {
  std::int64_t device = kAbsent;
  std::int64_t context = kAbsent;
  std::int64_t stream = kAbsent;
  std::array<std::int64_t, 3> grid{1, 1, 1};
  std::array<std::int64_t, 3> block{1, 1, 1};
  std::int64_t registers_per_thread = kAbsent;
  std::int64_t shared_memory_bytes = kAbsent;
  double blocks_per_sm = -1;
  double warps_per_sm = -1;
  double occupancy_pct = -1;  ///< "est. achieved occupancy %"
  std::int64_t graph_id = kAbsent;
  std::int64_t graph_node_id = kAbsent;
  std::int64_t priority = kAbsent;
};

/// A CUPTI synchronisation record. The event ids are in Trace::sync_ids.
struct SyncInfo {
  StringId kind;  ///< "Stream Wait Event", "Stream Sync", "Event Sync", "Context Sync"
  std::int64_t device = kAbsent;
  std::int64_t stream = kAbsent;  ///< kAbsent or -1: none
  std::int64_t wait_on_stream = kAbsent;
};

/// Metadata of a collective, on NCCL kernels and record_param_comms operations.
struct CollectiveInfo {
  StringId name;  ///< "allreduce", "_allgather_base", …
  StringId dtype;
  StringId group;        ///< process group name
  StringId group_ranks;  ///< as printed, "[0, 1]"; may be elided with "..."
  std::int64_t in_elements = kAbsent;
  std::int64_t out_elements = kAbsent;
  std::int64_t group_size = kAbsent;
  std::int64_t sequence = kAbsent;
};

/// Inputs of an operation, as JSON text; parse with parse_shapes / parse_strings when needed.
struct OpInputs {
  StringId dims;   ///< [[64, 3, 224, 224], [], …]
  StringId types;  ///< ["float", "long int", …]
  StringId strides;
  StringId concrete;  ///< ["", "1", "[2, 2]", …]
};

class ArgsTable {
 public:
  /// Adds a tuple (JSON object text) if new. Importers only.
  ArgsId intern(std::string_view json_object) { return ArgsId{tuples_.intern(json_object).value}; }
  /// Decodes all tuples into the typed rows; strings go to `strings`. Returns how many tuples are not valid JSON (they
  /// stay readable as text). Importers only, once.
  std::size_t decode(StringTable& strings);

  [[nodiscard]] std::size_t size() const { return tuples_.size(); }
  /// The whole tuple as the text of a JSON object; "" for an event without arguments.
  [[nodiscard]] std::string_view text(ArgsId id) const { return id.valid() ? tuples_[StringId{id.value}] : ""; }
  /// The raw JSON of one argument of a tuple, e.g. find(id, "cbid") -> "211". For rare keys; typed rows are faster.
  [[nodiscard]] std::optional<std::string> find(ArgsId id, std::string_view key) const;

  [[nodiscard]] const KernelLaunch* launch(ArgsId id) const { return row(launch_row_, launches_, id); }
  [[nodiscard]] const SyncInfo* sync(ArgsId id) const { return row(sync_row_, syncs_, id); }
  [[nodiscard]] const CollectiveInfo* collective(ArgsId id) const { return row(collective_row_, collectives_, id); }
  [[nodiscard]] const OpInputs* inputs(ArgsId id) const { return row(inputs_row_, inputs_, id); }
  [[nodiscard]] std::int64_t fwd_thread(ArgsId id) const {
    return id.valid() && id.index() < fwd_thread_.size() ? fwd_thread_[id.index()] : kAbsent;
  }
  [[nodiscard]] std::size_t bytes() const;

 private:
  template <class T>
  static const T* row(const std::vector<std::uint32_t>& rows, const std::vector<T>& table, ArgsId id) {
    if (!id.valid() || id.index() >= rows.size() || rows[id.index()] == 0) return nullptr;
    return &table[rows[id.index()] - 1];
  }

  StringTable tuples_;
  std::vector<std::uint32_t> launch_row_, sync_row_, collective_row_, inputs_row_;  // row + 1, 0 when none
  std::vector<std::int64_t> fwd_thread_;
  std::vector<KernelLaunch> launches_;
  std::vector<SyncInfo> syncs_;
  std::vector<CollectiveInfo> collectives_;
  std::vector<OpInputs> inputs_;
};

/// "[[2, 3], [], [4]]" -> {{2,3},{},{4}}. Tensor lists ([[[2,3],[4]]]) are flattened in order. Empty on malformed text.
std::vector<std::vector<std::int64_t>> parse_shapes(std::string_view json);
/// "[\"float\", \"\"]" -> {"float", ""}.
std::vector<std::string> parse_strings(std::string_view json);

// The arguments of an event as the file has them.

/// Key and raw JSON of each argument of a tuple (ArgsTable::text); also where a value is not valid JSON ("nan").
std::vector<std::pair<std::string, std::string>> argument_pairs(std::string_view tuple);

/// Dense columns, all of the same length.
struct Events {
  Column<Ns> start;     ///< since Trace::base_time_ns
  Column<Ns> duration;  ///< 0 for instants and flows
  Column<StringId> name;
  Column<LaneId> lane;
  Column<ArgsId> args;               ///< invalid when the event has no arguments beyond its ids
  Column<std::int64_t> correlation;  ///< correlation id; the flow's id on flow events; kAbsent when none
  Column<std::int64_t> external_id;  ///< "External id"; kAbsent when none
  Column<std::uint32_t> side;        ///< row in the side table of the event's kind, kNone when none
  Column<std::uint16_t> category;    ///< index into Trace::categories
  Column<char> ph;                   ///< Chrome phase letter: X, i, s, f, M, C, …; B/E pairs are joined into X

  [[nodiscard]] std::size_t size() const { return start.size(); }
  [[nodiscard]] std::size_t bytes() const;
};

/// Side table of kOp and kAnnotation.
struct OpIds {
  std::int64_t record_function_id = kAbsent;
  std::int64_t sequence_number = kAbsent;
  std::int64_t event_index = kAbsent;  ///< "Ev Idx"
};
/// Side table of kPython.
struct PythonIds {
  std::int64_t id = kAbsent;
  std::int64_t parent_id = kAbsent;
  std::int64_t event_index = kAbsent;
};
/// Side table of kMemory.
struct MemoryIds {
  std::int64_t address = kAbsent;
  std::int64_t bytes = 0;  ///< negative: freed
  std::int64_t total_allocated = kAbsent;
  std::int64_t total_reserved = kAbsent;
  std::int64_t event_index = kAbsent;
};
/// Side table of kSync and kCudaEvent.
struct SyncIds {
  std::int64_t event_id = kAbsent;            ///< wait_on_cuda_event_id, event_id
  std::int64_t record_correlation = kAbsent;  ///< wait_on_cuda_event_record_corr_id; -1 is "unresolved"
};
/// Side table of kMemcpy and kMemset.
struct CopyIds {
  std::int64_t bytes = kAbsent;
  double gbytes_per_s = 0;  ///< as the profiler computed it
};

enum class LaneKind : std::uint8_t { kCpuThread, kGpuStream, kOther };

/// Where events happen one after another.
struct Lane {
  LaneKind kind = LaneKind::kOther;
  StringId pid;  ///< as spelled in the file: "400", "Spans"
  StringId tid;
  std::int64_t pid_number = kAbsent;  ///< process id, or device index on GPU lanes; kAbsent when not a number
  std::int64_t tid_number = kAbsent;  ///< thread id, or stream id
  StringId name;                      ///< thread_name; empty when the file names none
  StringId process_name;
  StringId process_labels;
  std::int64_t sort_index = kAbsent;
};

struct DeviceProperties {
  std::int64_t id = 0;
  std::string name;
  std::int64_t total_memory_bytes = kAbsent;
  std::int64_t compute_major = kAbsent;
  std::int64_t compute_minor = kAbsent;
  std::int64_t sm_count = kAbsent;
  std::int64_t warp_size = kAbsent;
  std::int64_t max_threads_per_block = kAbsent;
  std::int64_t max_threads_per_sm = kAbsent;
  std::int64_t registers_per_sm = kAbsent;
  std::int64_t registers_per_block = kAbsent;
  std::int64_t shared_memory_per_block = kAbsent;
  std::int64_t shared_memory_per_block_optin = kAbsent;
  std::int64_t shared_memory_per_sm = kAbsent;
};

struct DistributedInfo {
  bool present = false;
  std::int64_t rank = kAbsent;
  std::int64_t world_size = kAbsent;
  std::string backend;
  std::string nccl_version;
};

/// A distinct `cat` of the file and what it means.
struct Category {
  StringId name;  ///< as spelled; empty for events without one
  EventKind kind = EventKind::kOther;
};

/// The side table a kind uses; importers and Trace agree through this.
enum class SideTable : std::uint8_t { kNone, kOp, kPython, kMemory, kSync, kCopy };
constexpr SideTable side_table(EventKind kind) {
  using enum EventKind;
  if (kind == kOp || kind == kAnnotation) return SideTable::kOp;
  if (kind == kPython) return SideTable::kPython;
  if (kind == kMemory) return SideTable::kMemory;
  if (kind == kSync || kind == kCudaEvent) return SideTable::kSync;
  return kind == kMemcpy || kind == kMemset ? SideTable::kCopy : SideTable::kNone;
}

struct Trace {
  std::string path;
  std::string format;             ///< the importer's name, "kineto"
  std::uint64_t input_bytes = 0;  ///< uncompressed
  bool partial = false;           ///< the input was cut off and read with `partial`
  std::string steps_by;           ///< the range that marks steps, where LoadOptions::steps_by named one

  /// Time in ns of an event since the epoch = base_time_ns + start ("baseTimeNanoseconds"). 0 where the file names no base:
  /// `start` is then whatever the file counts from.
  Ns base_time_ns = 0;
  StringTable strings;
  ArgsTable args;
  Events events;
  std::vector<Category> categories;
  std::vector<Lane> lanes;
  Column<OpIds> op_ids;
  Column<PythonIds> python_ids;
  Column<MemoryIds> memory_ids;
  Column<SyncIds> sync_ids;
  Column<CopyIds> copy_ids;
  std::vector<DeviceProperties> devices;
  DistributedInfo distributed;
  /// Every other top-level key of the file with its raw JSON, in the order of the file.
  std::vector<std::pair<std::string, std::string>> metadata;
  Diagnostics diagnostics;

  [[nodiscard]] std::size_t size() const { return events.size(); }
  [[nodiscard]] EventKind kind(std::size_t e) const { return categories[events.category[e]].kind; }
  [[nodiscard]] std::string_view name(std::size_t e) const { return strings[events.name[e]]; }
  [[nodiscard]] std::string_view category_name(std::size_t e) const {
    return strings[categories[events.category[e]].name];
  }
  [[nodiscard]] Ns end(std::size_t e) const { return events.start[e] + events.duration[e]; }
  [[nodiscard]] const OpIds* op(std::size_t e) const { return side(op_ids, SideTable::kOp, e); }
  [[nodiscard]] const PythonIds* python(std::size_t e) const { return side(python_ids, SideTable::kPython, e); }
  [[nodiscard]] const MemoryIds* memory(std::size_t e) const { return side(memory_ids, SideTable::kMemory, e); }
  [[nodiscard]] const SyncIds* sync(std::size_t e) const { return side(sync_ids, SideTable::kSync, e); }
  [[nodiscard]] const CopyIds* copy(std::size_t e) const { return side(copy_ids, SideTable::kCopy, e); }
  [[nodiscard]] const KernelLaunch* launch(std::size_t e) const { return args.launch(events.args[e]); }
  /// Raw JSON of a top-level metadata key, empty when absent.
  [[nodiscard]] std::string_view metadata_value(std::string_view key) const;
  /// "thread 400 (python)", "GPU 0 stream 7", "row Spans" for what is neither.
  [[nodiscard]] std::string lane_label(LaneId lane) const;
  /// Memory held by columns and tables.
  [[nodiscard]] std::size_t bytes() const;

 private:
  /// The kind decides which table `side` points into; asking for the wrong one gives nullptr.
  template <class T>
  const T* side(const Column<T>& table, SideTable of, std::size_t e) const {
    return events.side[e] == kNone || side_table(kind(e)) != of ? nullptr : &table[events.side[e]];
  }
};

// Steps: training iterations (or batches of a serving engine) found in a trace, and how they were found.
//
//   Steps steps = find_steps(trace);                  // "ProfilerStep ranges", or whatever the trace offers
//   Steps mine = *steps_by(trace, "train_step");      // by the ranges of that name

enum class StepSource : std::uint8_t {
  kProfilerStep,  ///< ProfilerStep#N ranges
  kOptimizer,     ///< from one end of an Optimizer.step range to the next
  kRepetition,    ///< a sequence of kernels that repeats
  kWholeTrace,    ///< nothing repeats: the whole trace is one step
  kAnnotation,    ///< ranges of an engine, a trainer, or by convention (src/trace/names/steps.csv)
  kByName,        ///< ranges the user named
};
/// "ProfilerStep ranges", "optimizer ranges", …
std::string_view describe(StepSource source);

struct Step {
  std::string name;         ///< "ProfilerStep#4"; "step 0" when the file names none
  std::int64_t number = 0;  ///< 4
  Ns start = 0;
  Ns end = 0;
  LaneId lane;  ///< the thread that carries the range; invalid when none
  /// Time between start and end in which the step waited for work that is not in the file; not part of its duration.
  Ns waited = 0;
  /// When that work ended: nothing that the step launched before could start earlier.
  Ns waited_until = 0;
  /// Of a step alone in its file: when its thread had done its last task. The step ends when its GPU work has, too.
  std::optional<Ns> thread_end;
  [[nodiscard]] Ns duration() const { return end - start - waited; }
};

struct Steps {
  StepSource source = StepSource::kWholeTrace;
  std::vector<Step> steps;  ///< by start time
  std::string marked_by;    ///< the ranges they were found by: "step[*] (SGLang: …)"; empty when none

  /// The default step of a verb: the median by duration; of an even count the lower median.
  [[nodiscard]] std::size_t median() const;
  /// The step numbered `number`, or an error naming those there are.
  [[nodiscard]] Result<std::size_t> by_number(std::int64_t number) const;
};

/// Finds the steps of a trace: by Trace::steps_by where it is set, else in the order of trust. Empty only when the trace has
/// no timed event at all.
Steps find_steps(const Trace& trace);

/// The steps by ranges named `name` (operations, user ranges, Python frames): exactly, by a pattern with `*`, or up to
/// their numbers ("step" for "step 12"). An unknown name is an error that says which there are.
Result<Steps> steps_by(const Trace& trace, std::string_view name);

/// From now on find_steps(trace) uses ranges of this name; an error where there are none. An empty name changes nothing.
Status mark_steps_by(Trace& trace, const std::string& name);

/// A range that could mark steps.
struct StepCandidate {
  std::string name;         ///< numbers as "%d": what --steps-by takes
  std::uint64_t count = 0;  ///< of ranges on the thread that has most
  Ns median = 0;            ///< of their lengths
  double gpu_share = 0;     ///< of the trace's GPU time, launched inside of them
};
/// Ranges in which at least half of the GPU's time was launched, and those the table of names knows; largest share first.
std::vector<StepCandidate> step_candidates(const Trace& trace);

}  // namespace foretrace::trace
