// Nsight Systems' export of tables: SQLite (nsys export --type sqlite), plain or compressed, and where a reader is given
// Parquet (nsight_folder.cpp). Tables are made lazily by the exporter, and
// columns differ between versions: any of them may be missing. A process that used a GPU is one trace; a file of a whole
// job holds one per rank.

#include "trace/importers/nsight.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/utf8.hpp"
#include "trace/importers/device_clock.hpp"
#include "trace/importers/json_text.hpp"
#include "trace/importers/sqlite_file.hpp"

namespace foretrace::trace {

bool NsightRead::times(const TableRow& row, int start, int end, EventRow& out) {
  constexpr Ns kLongest = Ns{1} << 60;  // 36 years: a guard against damaged times
  Ns duration = 0;
  out.start = row.integer(start);
  if (!row.number(start) || !row.number(end) || __builtin_sub_overflow(row.integer(end), out.start, &duration) ||
      duration > kLongest) {
    trace.diagnostics.add("bad_row", Severity::kDataLoss, "rows without a time were left out");
    return false;
  }
  if (duration < 0) {
    trace.diagnostics.add("negative_duration", Severity::kInfo, "an event ends before it begins; it counts as 0");
    duration = 0;
  }
  out.duration = duration;
  return true;
}

Status NsightRead::read_strings() {
  return table("StringIds", "id value", [&](const TableRow& row) {
    const std::string_view text = row.text(1);
    text_of_[row.integer(0)] = is_ascii(text) ? texts_.intern(text) : texts_.intern(make_valid_utf8(text));
  });
}

StringId NsightRead::string(std::int64_t id) {
  StringId& known = string_of_.try_emplace(id).first->second;
  if (known.valid()) {
    if (!text_of_.contains(id)) {
      trace.diagnostics.add("dangling_string", Severity::kInfo, "a name is missing in the file's table of strings");
    }
    return known;
  }
  const auto text = text_of_.find(id);
  if (text != text_of_.end()) return known = trace.strings.intern(texts_[text->second]);
  trace.diagnostics.add("dangling_string", Severity::kInfo, "a name is missing in the file's table of strings",
                        fmt::format("string {}", id));
  return known = trace.strings.intern(fmt::format("(string {})", id));
}

namespace {

int sniff_nsight(std::string_view head) {
  using namespace std::string_view_literals;
  if (!head.starts_with("SQLite format 3\0"sv)) return 0;
  // Whose database it is stands in its list of tables, most often near its beginning. One that does not say so there may
  // still be ours, but a folder of traces may hold others.
  for (const std::string_view table :
       {"StringIds", "META_DATA_EXPORT", "CUPTI_ACTIVITY_KIND", "NVTX_EVENTS", "ENUM_NSYS"}) {
    if (head.find(table) != std::string_view::npos) return 100;
  }
  return 50;
}

constexpr const char* kGpuTables[] = {kNsightKernels, kNsightCopies, kNsightFills, kNsightGraphs};

// Processes that used a GPU, by the lowest number of GPU each used: the order of ranks on a machine.
std::vector<std::int64_t> gpu_processes(const TableFile& file) {
  std::map<std::int64_t, std::int64_t> lowest;  // process -> GPU
  for (const char* table : kGpuTables) {
    if (!file.has(table)) continue;
    (void)file.scan(table, "globalPid deviceId", [&](const TableRow& row) {
      const auto it = lowest.try_emplace(nsight_pid(row.integer(0)), row.integer(1)).first;
      it->second = std::min(it->second, row.integer(1));
    });
  }
  std::vector<std::int64_t> out;
  for (const auto& [process, gpu] : lowest) out.push_back(process);
  std::stable_sort(out.begin(), out.end(), [&](std::int64_t a, std::int64_t b) { return lowest[a] < lowest[b]; });
  return out;
}

bool is_nsight(const TableFile& file) {
  return file.has("META_DATA_EXPORT") || file.has("StringIds", "value") || file.has("NVTX_EVENTS", "eventType") ||
         std::any_of(std::begin(kGpuTables), std::end(kGpuTables), [&](const char* t) { return file.has(t); });
}

Error not_nsight(const TableFile& file) {
  std::string seen;
  for (const auto& [table, columns] : file.tables()) {
    if (seen.size() > 80) {
      seen += ", …";
      break;
    }
    seen += (seen.empty() ? "" : ", ") + make_valid_utf8(table);
  }
  return {ErrorCode::kUnreadable,
          "an SQLite database, but none of Nsight Systems",
          {},
          Error::kNoOffset,
          seen.empty() ? "it holds no tables; export again: nsys export --type sqlite REPORT.nsys-rep"
                       : "its tables are: " + seen};
}

}  // namespace

Result<Trace> read_nsight_tables(const TableFile& file, const std::string& path, std::uint64_t bytes,
                                 const LoadOptions& options, const Part& part) {
  const Status whole = file.whole();
  if (!whole && !options.partial) return tl::unexpected(whole.error());
  if (!is_nsight(file)) return tl::unexpected(not_nsight(file));
  const std::vector<std::int64_t> processes = gpu_processes(file);
  if (part.index > 0 && part.index >= processes.size()) {
    return fail(
        ErrorCode::kUsage,
        fmt::format("the file holds {} processes that used a GPU; there is no #{}", processes.size(), part.index),
        processes.empty() ? "" : fmt::format("they are #0 to #{}", processes.size() - 1));
  }
  Trace trace;
  trace.path = path;
  trace.format = "nsight";
  trace.input_bytes = bytes;
  if (!whole) note_truncated(trace, whole.error().message);
  NsightRead in(file, trace, options);
  if (!processes.empty()) in.process = processes[part.index];
  if (processes.size() > 1) {
    trace.distributed.present = true;
    trace.distributed.rank = static_cast<std::int64_t>(part.index);
    trace.distributed.world_size = static_cast<std::int64_t>(processes.size());
    if (!part.named) {
      trace.diagnostics.add("several_processes", Severity::kInfo,
                            "the file holds several processes that used a GPU; this is the first",
                            fmt::format("{} processes; {}#1 is the next", processes.size(), path));
    }
  }
  FORETRACE_TRY_VOID(in.read_strings());
  FORETRACE_TRY_VOID(read_nsight_gpu(in));
  FORETRACE_TRY_VOID(read_nsight_cpu(in));
  FORETRACE_TRY_VOID(read_nsight_about(in));
  in.nccl.name_collectives(trace);
  trace.args.decode(trace.strings);
  align_device_clock(trace);
  return trace;
}

std::size_t count_nsight_tables(const TableFile& file) { return std::max<std::size_t>(1, gpu_processes(file).size()); }

namespace {

Result<Trace> read_nsight(SeekableSource& source, const std::string& path, const LoadOptions& options,
                          const Part& part) {
  FORETRACE_TRY(const SqliteFile file, SqliteFile::open(source));
  return read_nsight_tables(file, path, source.size(), options, part);
}

std::size_t count_nsight(SeekableSource& source) {
  const Result<SqliteFile> file = SqliteFile::open(source);
  return file ? count_nsight_tables(*file) : 1;
}

}  // namespace

Importer nsight_importer() {
  return {.name = "nsight",
          .about = "Nsight Systems, exported with `nsys export --type sqlite` (or parquetdir: Python with pyarrow)",
          .extensions = ".sqlite .sqlite.gz .sqlite.zst",
          .sniff = sniff_nsight,
          .read_part = read_nsight,
          .count_parts = count_nsight};
}

}  // namespace foretrace::trace
