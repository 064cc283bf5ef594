#include "cli/traces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/missing_file.hpp"
#include "trace/parts.hpp"

namespace foretrace::cli {
namespace {

namespace fs = std::filesystem;

Error not_found(const std::string& path, const std::error_code& error) {
  if (!error || error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) {
    return missing_file(path);
  }
  return {ErrorCode::kUnreadable, error.message(), path, Error::kNoOffset, "check the path and its permissions"};
}

}  // namespace

Result<std::vector<std::string>> locate_traces(const std::vector<std::string>& arguments,
                                               const trace::LoadOptions& options) {
  std::vector<std::string> paths, files;
  for (const std::string& argument : arguments) {
    if (argument == "-") {
      if (files.empty()) files.push_back(argument);
      continue;
    }
    std::error_code error;
    if (!fs::exists(trace::part_of_file(argument).file, error)) return tl::unexpected(not_found(argument, error));
    paths.push_back(argument);
  }
  if (!paths.empty()) {
    FORETRACE_TRY(const std::vector<std::string> found, trace::find_trace_files(paths, options));
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

Result<trace::Trace> load_one(const std::vector<std::string>& arguments, const Request& request) {
  FORETRACE_TRY(const std::vector<std::string> files, locate_traces(arguments, request.load));
  const std::optional<std::int64_t> rank = request.values.integer("rank");
  if (!rank) {
    Result<trace::Trace> trace = trace::load(files.front(), request.load);
    if (trace && files.size() > 1) {
      request.note(fmt::format("{} traces given; this is {}{}. --rank R picks another.", files.size(), files.front(),
                               trace->distributed.rank >= 0 ? fmt::format(", rank {}", trace->distributed.rank) : ""));
    }
    return trace;
  }
  // Files come sorted by rank, so the R-th is most likely the one: try it first.
  std::vector<std::string> order = files;
  if (static_cast<std::size_t>(*rank) < order.size()) {
    std::rotate(order.begin(), order.begin() + *rank, order.begin() + *rank + 1);
  }
  std::string seen;
  for (const std::string& file : order) {
    FORETRACE_TRY(trace::Trace trace, trace::load(file, request.load));
    if (trace.distributed.rank == *rank) return trace;
    const std::string is = trace.distributed.rank >= 0 ? fmt::format("rank {}", trace.distributed.rank) : "no rank";
    seen += (seen.empty() ? "" : ", ") + fmt::format("{} ({})", file, is);
  }
  return fail(ErrorCode::kUsage, fmt::format("no trace of rank {} among those given", *rank), "given: " + seen);
}

Result<std::vector<trace::Trace>> load_recordings(const std::vector<std::string>& named, const Request& request,
                                                  const char* side, std::optional<std::int64_t> wanted) {
  FORETRACE_TRY(const std::vector<std::string> files, locate_traces(named, request.load));
  std::vector<trace::Trace> out;
  std::vector<std::int64_t> ranks;
  for (const std::string& file : files) {
    FORETRACE_TRY(trace::Trace trace, trace::load(file, request.load));
    ranks.push_back(trace.distributed.present ? trace.distributed.rank : -1);
    out.push_back(std::move(trace));
  }
  const bool several = std::any_of(ranks.begin(), ranks.end(), [&](std::int64_t r) { return r != ranks.front(); });
  if (!several && !wanted) return out;
  const std::int64_t rank = wanted ? *wanted : *std::min_element(ranks.begin(), ranks.end());
  std::vector<trace::Trace> kept;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (ranks[i] == rank) kept.push_back(std::move(out[i]));
  }
  if (kept.empty()) return fail(ErrorCode::kUsage, fmt::format("{} holds no trace of rank {}", side, rank));
  if (several && !wanted)
    request.note(fmt::format("{} holds several ranks; rank {} is compared. --rank R picks another.", side, rank));
  return kept;
}

std::vector<const trace::Trace*> pointers(const std::vector<trace::Trace>& traces) {
  std::vector<const trace::Trace*> out;
  for (const trace::Trace& trace : traces) out.push_back(&trace);
  return out;
}

}  // namespace foretrace::cli
