#include "foretrace/trace/load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <optional>

#include "base/byte_source.hpp"
#include "foretrace/trace/trace.hpp"
#include "trace/cuda_recording.hpp"
#include "trace/execution_trace.hpp"
#include "trace/importers/importer.hpp"
#include "trace/importers/nsight_folder.hpp"
#include "trace/parts.hpp"

namespace foretrace::trace {

namespace {

namespace fs = std::filesystem;

constexpr int kTraceInFolder = 60;  // surer than "some JSON": a folder may hold other files

// JSON begins with a bracket, so that the zeros around the first two characters tell the encoding where no mark does.
// Windows PowerShell writes UTF-16 when a command's output goes into a file.
std::string_view other_encoding(std::string_view head) {
  using namespace std::string_view_literals;
  if (head.starts_with("\xFF\xFE\0\0"sv)) return "UTF-32LE";
  if (head.starts_with("\0\0\xFE\xFF"sv)) return "UTF-32BE";
  if (head.starts_with("\xFF\xFE"sv)) return "UTF-16LE";
  if (head.starts_with("\xFE\xFF"sv)) return "UTF-16BE";
  if (head.size() < 4) return {};
  const auto text = [&](std::size_t i) {
    return head[i] == '{' || head[i] == '[' || head[i] == ' ' || head[i] == '\n';
  };
  if (text(0) && head[1] == 0 && head[2] != 0 && head[3] == 0) return "UTF-16LE";
  if (head[0] == 0 && text(1) && head[2] == 0 && head[3] != 0) return "UTF-16BE";
  if (text(0) && head.substr(1, 3) == "\0\0\0"sv) return "UTF-32LE";
  if (head.substr(0, 3) == "\0\0\0"sv && text(3)) return "UTF-32BE";
  return {};
}

// Reports that only Nsight Systems itself can read; what it exports can be.
bool is_nsight_report(std::string_view path) {
  return path.ends_with(".nsys-rep") || path.ends_with(".qdrep") || path.ends_with(".qdstrm");
}
Error nsight_report(const std::string& path) {
  const std::string exported = fs::path(path).replace_extension(".sqlite").string();
  return {
      ErrorCode::kUnreadable, "this is a report of Nsight Systems, which only nsys can read", path, Error::kNoOffset,
      path.ends_with(".qdstrm")
          ? fmt::format("make a report of it with QdstrmImporter, then: nsys export --type sqlite --output {} REPORT",
                        exported)
          : fmt::format("nsys export --type sqlite --output {} {}", exported, path)};
}

Result<Trace> read_with(const Importer& importer, ByteSource& source, const std::string& path,
                        const LoadOptions& options, const Part& part) {
  if (importer.read_part == nullptr) {
    if (part.index > 0) {
      return fail(ErrorCode::kUsage, fmt::format("the file holds one trace, and #{} names another", part.index),
                  "only files of Nsight Systems and JAX hold several");
    }
    return importer.read(source, path, options);
  }
  FORETRACE_TRY(const std::unique_ptr<SeekableSource> seekable, make_seekable(source));
  if (seekable->damage && !options.partial) return tl::unexpected(*seekable->damage);
  FORETRACE_TRY(Trace trace, importer.read_part(*seekable, path, options, part));
  if (seekable->damage) note_truncated(trace, seekable->damage->message);
  return trace;
}

// What holds for traces of every format once they are read.
Result<Trace> finished(Trace trace, const std::string& path, const LoadOptions& options) {
  note_dropped_records(trace);
  if (options.strict && trace.diagnostics.lost_records() > 0) {
    const auto& problems = trace.diagnostics.problems();
    const auto first = std::find_if(problems.begin(), problems.end(),
                                    [](const Problem& p) { return p.severity == Severity::kDataLoss; });
    return tl::unexpected(Error{ErrorCode::kUnreadable,
                                fmt::format("{} ({} of them, --strict)", first->meaning, first->count), path,
                                first->offset, "without --strict such records are counted and left out"});
  }
  FORETRACE_TRY_VOID(mark_steps_by(trace, options.steps_by));
  return trace;
}

Result<Trace> read_source(std::unique_ptr<ByteSource> source, const std::string& path, const LoadOptions& options,
                          const Part& part) {
  FORETRACE_TRY(const std::string head, peek(source, kSniffBytes));
  if (head.empty()) {
    return fail(ErrorCode::kUnreadable, "the file is empty",
                "the profiler may have been stopped before it wrote its trace");
  }
  if (head.find_first_not_of(" \t\r\n") == std::string::npos) {
    return fail(ErrorCode::kUnreadable,
                head.size() < kSniffBytes ? "the file holds only white space"
                                          : "the file begins with 64 KiB of white space and is not read further",
                "the profiler may have been stopped before it wrote its trace");
  }
  if (const std::string_view encoding = other_encoding(head); !encoding.empty()) {
    return tl::unexpected(Error{ErrorCode::kUnreadable,
                                fmt::format("the file is {} text, and traces are UTF-8", encoding), path, 0,
                                fmt::format("iconv -f {} -t UTF-8 FILE > trace.json", encoding)});
  }
  const Importer* best = recognise_format(head);
  if (best == nullptr) {
    if (is_nsight_report(path)) return tl::unexpected(nsight_report(path));
    if (head.starts_with("PAR1")) {
      return fail(ErrorCode::kUnreadable, "this is one Parquet table",
                  "give the folder that `nsys export --type parquetdir` wrote, with all its tables");
    }
    return tl::unexpected(Error{ErrorCode::kUnreadable, "the file is of no format foretrace reads", path, 0,
                                "`foretrace list formats` shows them; .nsys-rep files must be exported first"});
  }
  FORETRACE_TRY(Trace trace, read_with(*best, *source, path, options, part));
  return finished(std::move(trace), path, options);
}

template <class T>
Result<T> with_file(Result<T> result, const std::string& path) {
  if (!result && result.error().file.empty()) result.error().file = path;
  return result;
}

// Memory that runs out while a file is read says something about the file.
template <class Read>
Result<Trace> read_within_memory(const std::string& path, Read read) {
  try {
    return with_file(read(), path);
  } catch (const std::bad_alloc&) {
    return tl::unexpected(Error{ErrorCode::kUnreadable, "not enough memory to read this file", path, Error::kNoOffset,
                                "a trace needs about 100 bytes per event; record fewer steps, or allow more with "
                                "--max-memory GB"});
  }
}

// The number behind "rank" in the head of a file, where the profiler wrote one.
std::optional<std::int64_t> rank_in(std::string_view head) {
  const std::size_t info = head.find("\"distributedInfo\"");
  if (info == std::string_view::npos) return std::nullopt;
  const std::size_t key = head.find("\"rank\"", info);
  if (key == std::string_view::npos) return std::nullopt;
  const std::size_t digit = head.find_first_of("0123456789", key);
  if (digit == std::string_view::npos) return std::nullopt;
  std::int64_t rank = 0;
  for (std::size_t i = digit; i < head.size() && head[i] >= '0' && head[i] <= '9' && rank < 1'000'000'000; ++i) {
    rank = rank * 10 + (head[i] - '0');
  }
  return rank;
}

// "rank2" before "rank10": runs of digits compare as numbers.
bool natural_less(const std::string& a, const std::string& b) {
  std::size_t i = 0;
  std::size_t j = 0;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      const std::size_t i0 = a.find_first_not_of('0', i);
      const std::size_t j0 = b.find_first_not_of('0', j);
      std::size_t ie = i0 == std::string::npos ? a.size() : i0;
      std::size_t je = j0 == std::string::npos ? b.size() : j0;
      const std::size_t ib = ie;
      const std::size_t jb = je;
      while (ie < a.size() && digit(a[ie])) ++ie;
      while (je < b.size() && digit(b[je])) ++je;
      if (ie - ib != je - jb) return ie - ib < je - jb;
      if (const int c = a.compare(ib, ie - ib, b, jb, je - jb); c != 0) return c < 0;
      i = ie;
      j = je;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

Result<std::vector<std::string>> files_in(const std::string& folder) {
  struct Found {
    std::int64_t rank;
    std::string path;
  };
  std::vector<Found> found;
  std::error_code error;
  std::size_t seen = 0;
  std::string report;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (is_nsight_folder(it->path().string())) found.push_back({INT64_MAX, it->path().string()});
    if (!it->is_regular_file(ignored)) continue;
    ++seen;
    auto source = open_source(it->path().string());
    if (!source) continue;
    const auto head = peek(*source, kSniffBytes);
    if (!head) continue;
    const bool known = std::any_of(importers().begin(), importers().end(),
                                   [&](const Importer& i) { return i.sniff(*head) >= kTraceInFolder; });
    if (known) found.push_back({rank_in(*head).value_or(INT64_MAX), it->path().string()});
    if (report.empty() && is_nsight_report(it->path().string())) report = it->path().string();
  }
  if (error) {
    return tl::unexpected(
        Error{ErrorCode::kUnreadable, "cannot list the folder: " + error.message(), folder, Error::kNoOffset, {}});
  }
  if (found.empty() && !report.empty()) return tl::unexpected(nsight_report(report));
  if (found.empty()) {
    return tl::unexpected(Error{
        ErrorCode::kUnreadable,
        seen == 0 ? "the folder holds no files" : fmt::format("none of the {} files in this folder is a trace", seen),
        folder, Error::kNoOffset, "a folder should hold one trace file per rank, not folders of them"});
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    if (a.rank != b.rank) return a.rank < b.rank;
    return natural_less(a.path, b.path);
  });
  std::vector<std::string> paths;
  for (Found& f : found) paths.push_back(std::move(f.path));
  return paths;
}

}  // namespace

Result<Trace> load(const std::string& path, const LoadOptions& options) {
  const PartOfFile of = part_of_file(path);
  const Part part{of.part.value_or(0), of.part.has_value()};
  if (is_nsight_folder(of.file)) {
    return read_within_memory(path, [&]() -> Result<Trace> {
      FORETRACE_TRY(Trace trace, read_nsight_folder(of.file, path, options, part));
      return finished(std::move(trace), path, options);
    });
  }
  auto source = open_source(of.file);
  if (!source) return with_file(Result<Trace>(forward(source)), path);
  Result<Trace> trace = read_within_memory(path, [&] { return read_source(std::move(*source), path, options, part); });
  if (trace) attach_execution_trace(*trace);
  return trace;
}

Result<Trace> load_bytes(std::string_view bytes, const std::string& name, const LoadOptions& options) {
  auto source = memory_source(bytes);
  if (!source) return with_file(Result<Trace>(forward(source)), name);
  return read_within_memory(name, [&] { return read_source(std::move(*source), name, options, {}); });
}

Result<std::vector<std::string>> find_trace_files(const std::vector<std::string>& paths, const LoadOptions& options) {
  std::vector<std::string> all;
  const auto add = [&](const std::string& file) {
    const std::size_t parts = file == "-" ? 1 : parts_in(file, options);
    if (parts < 2) all.push_back(file);
    for (std::size_t p = 0; parts > 1 && p < parts; ++p) all.push_back(fmt::format("{}#{}", file, p));
  };
  for (const std::string& path : paths) {
    std::error_code error;
    if (path != "-" && fs::is_directory(path, error) && !is_nsight_folder(path)) {
      FORETRACE_TRY(std::vector<std::string> inside, files_in(path));
      for (const std::string& file : inside) add(file);
    } else {
      add(path);
    }
  }
  return all;
}

std::vector<FormatInfo> formats() {
  std::vector<FormatInfo> list;
  for (const Importer& i : importers()) {
    list.push_back({std::string(i.name), std::string(i.about), std::string(i.extensions)});
  }
  std::sort(list.begin(), list.end(), [](const FormatInfo& a, const FormatInfo& b) { return a.name < b.name; });
  return list;
}

}  // namespace foretrace::trace
