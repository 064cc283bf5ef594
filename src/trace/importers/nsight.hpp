#pragma once
// Parts of the importer of Nsight Systems' exported tables (nsight.cpp). Times are nanoseconds; names are numbers into
// StringIds; a thread is (globalTid >> 24) & 0xFFFFFF, globalTid & 0xFFFFFF; correlation ids are those of one process.

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "trace/importers/event_rows.hpp"
#include "trace/importers/importer.hpp"
#include "trace/importers/nccl_ranges.hpp"
#include "trace/importers/table_file.hpp"

namespace foretrace::trace {

inline constexpr const char* kNsightKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
inline constexpr const char* kNsightCopies = "CUPTI_ACTIVITY_KIND_MEMCPY";
inline constexpr const char* kNsightFills = "CUPTI_ACTIVITY_KIND_MEMSET";
inline constexpr const char* kNsightGraphs = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
inline constexpr const char* kNsightCalls = "CUPTI_ACTIVITY_KIND_RUNTIME";
inline constexpr const char* kNsightSyncs = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
inline constexpr const char* kNsightEvents = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";

constexpr std::int64_t nsight_pid(std::int64_t global) { return (global >> 24) & 0xFFFFFF; }
constexpr std::int64_t nsight_tid(std::int64_t global) { return global & 0xFFFFFF; }

/// What all parts share: the file, the trace it becomes, and the process that is read.
struct NsightRead {
  NsightRead(const TableFile& f, Trace& t, const LoadOptions& o) : file(f), trace(t), options(o), rows(t) {}

  const TableFile& file;
  Trace& trace;
  const LoadOptions& options;
  EventRows rows;
  std::int64_t process = kAbsent;  ///< the one that is read; kAbsent: all
  std::unordered_map<std::int64_t, std::int64_t> device_of_context;
  NcclRanges nccl;
  std::uint64_t scanned = 0;

  [[nodiscard]] bool ours(std::int64_t pid) const { return process == kAbsent || pid == process; }

  /// Reads a table where there is one. Damage is an error, or with `partial` a counted loss.
  template <class F>
  Status table(const char* name, std::string_view columns, F each) {
    if (!file.has(name)) return {};
    Status done = file.scan(name, columns, [&](const TableRow& row) {
      if (++scanned % 65536 == 0 && options.progress) options.progress("reading " + trace.path, scanned, 0, "rows");
      each(row);
    });
    if (done || !options.partial) return done;
    note_truncated(trace, done.error().message);
    return {};
  }

  /// Reads a table of rows with a start and an end: each(row, event) gets an event with its times and its correlation id.
  /// `owner` is the column of the process or thread. The columns asked for begin at 4.
  template <class F>
  Status timed_table(const char* name, std::string_view owner, std::string_view columns, F each) {
    const std::string all = fmt::format("start end {} correlationId {}", owner, columns);
    return table(name, all, [&](const TableRow& row) {
      EventRow event;
      if (!ours(nsight_pid(row.integer(2))) || !times(row, 0, 1, event)) return;
      event.correlation = row.integer(3, kAbsent);
      each(row, event);
    });
  }

  /// Start and duration from two columns; false (and counted) where they are no times.
  bool times(const TableRow& row, int start, int end, EventRow& out);

  /// The text of a string id; what dangles is counted and named by its number.
  StringId string(std::int64_t id);
  Status read_strings();

 private:
  StringTable texts_;                                     // all of StringIds
  std::unordered_map<std::int64_t, StringId> text_of_;    // string id -> texts_
  std::unordered_map<std::int64_t, StringId> string_of_;  // string id -> trace.strings, as far as used
};

/// All of it, from whatever holds the tables; `bytes` is the size of the input.
Result<Trace> read_nsight_tables(const TableFile& file, const std::string& path, std::uint64_t bytes,
                                 const LoadOptions& options, const Part& part);
/// How many processes used a GPU; at least 1.
std::size_t count_nsight_tables(const TableFile& file);

/// Kernels, copies, fills, whole graphs, synchronisation, CUDA events, memory (nsight_gpu.cpp).
Status read_nsight_gpu(NsightRead& in);
/// Calls, NVTX ranges, overheads, library calls (nsight_cpu.cpp).
Status read_nsight_cpu(NsightRead& in);
/// GPUs, names of threads and processes, versions (nsight_about.cpp).
Status read_nsight_about(NsightRead& in);

}  // namespace foretrace::trace
