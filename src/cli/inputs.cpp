#include "cli/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/byte_source.hpp"
#include "base/missing_file.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "ranks/missing.hpp"
#include "trace/parts.hpp"
#include "whatif/catalogue/also_written.hpp"
#include "whatif/model/compiled.hpp"

namespace foretrace::cli {

namespace fs = std::filesystem;

Result<std::vector<std::string>> locate_traces(const std::vector<std::string>& arguments,
                                               const trace::LoadOptions& options) {
  std::vector<std::string> paths, files;
  for (const std::string& argument : arguments) {
    if (argument == "-") {
      if (files.empty()) files.push_back(argument);
      continue;
    }
    std::error_code error;
    if (!fs::exists(trace::part_of_file(argument).file, error)) {
      if (!error || error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) {
        return tl::unexpected(missing_file(argument));
      }
      return tl::unexpected(Error{ErrorCode::kUnreadable, error.message(), argument, Error::kNoOffset,
                                  "check the path and its permissions"});
    }
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
  const auto rank_text = [](const trace::Trace& t) {
    return t.distributed.rank >= 0 ? fmt::format("rank {}", t.distributed.rank) : "no rank";
  };
  const std::optional<std::int64_t> rank = request.values.integer("rank");
  if (!rank) {
    Result<trace::Trace> trace = trace::load(files.front(), request.load);
    if (trace && files.size() > 1) {
      request.note(fmt::format("{} traces given; using {} ({}). {}", files.size(), files.front(), rank_text(*trace),
                               trace->distributed.rank >= 0 ? "--rank R picks another." : "Name a file to use it."));
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
    seen += fmt::format("{}{} ({})", seen.empty() ? "" : ", ", file, rank_text(trace));
  }
  return fail(ErrorCode::kUsage, fmt::format("no trace of rank {} among those given", *rank), "given: " + seen);
}

Result<Recordings> load_side(const std::vector<std::string>& named, const Request& request, const char* side) {
  FORETRACE_TRY(const std::vector<std::string> files, locate_traces(named, request.load));
  std::vector<Result<trace::Trace>> read = ranks::load_all(files, request.load);
  const auto rank_of = [](const trace::Trace& t) { return t.distributed.present ? t.distributed.rank : -1; };
  std::vector<std::int64_t> ranks;
  for (const Result<trace::Trace>& one : read) {
    if (one) ranks.push_back(rank_of(*one));
  }
  const bool several = std::any_of(ranks.begin(), ranks.end(), [&](std::int64_t r) { return r != ranks.front(); });
  const std::optional<std::int64_t> wanted = request.values.integer("rank");
  Recordings out;
  if (several && !wanted) {
    FORETRACE_TRY(out.job, ranks::assemble(files, std::move(read)));
    return out;
  }
  for (Result<trace::Trace>& one : read) {
    if (!one) return forward(one);
    if (!wanted || rank_of(*one) == *wanted) out.traces.push_back(std::move(*one));
  }
  if (out.traces.empty()) return fail(ErrorCode::kUsage, fmt::format("{} holds no trace of rank {}", side, *wanted));
  return out;
}

Result<std::vector<trace::Trace>> load_recordings(const std::vector<std::string>& named, const Request& request,
                                                  const char* side) {
  FORETRACE_TRY(Recordings found, load_side(named, request, side));
  if (!found.job) return std::move(found.traces);
  return fail(ErrorCode::kDeclined, fmt::format("{} holds several ranks, and only one can be compared here", side),
              "--rank R picks it");
}

std::vector<const trace::Trace*> pointers(const std::vector<trace::Trace>& traces) {
  std::vector<const trace::Trace*> out;
  for (const trace::Trace& trace : traces) out.push_back(&trace);
  return out;
}

Result<TracesAndChanges> split_arguments(const std::vector<std::string>& given) {
  TracesAndChanges out;
  for (const std::string& text : given) {
    std::error_code ignored;
    const bool file = text == "-" || fs::exists(text, ignored);
    // After a trace, a word that does not look like a path was meant as a what-if: its error names the closest one.
    const bool word = !out.traces.empty() && text.find_first_of("./") == std::string::npos;
    const std::string use = whatif::written_out(text);
    if (file || (!whatif::find_whatif(use.substr(0, use.find(':'))) && !word)) {
      out.traces.push_back(text);
      continue;
    }
    FORETRACE_TRY_VOID(whatif::parse_use(text));
    out.whatifs.push_back(text);
  }
  return out;
}

Result<host::UserMeasurements> user_measurements(const Values& values) {
  host::UserMeasurements out(values.number("measured-ms"));
  if (const auto file = values.text("host")) {
    FORETRACE_TRY(out.host, host::HostCosts::read(*file));
  }
  return out;
}

Result<TracesAndChanges> traces_and_changes(const Values& values) {
  std::vector<std::string> given = values.argument("TRACE");
  const std::vector<std::string>& more = values.argument("WHATIF");
  given.insert(given.end(), more.begin(), more.end());
  return split_arguments(given);
}

namespace {

// What was left out of a job, or filled in. That ranks have no trace is in the answer.
void note_left_out(const Request& request, const ranks::Job& job, const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    if (note != ranks::note_of_missing(job)) request.note(note);
  }
}

}  // namespace

Result<OpenBaseline> open_baseline(const Request& request, const std::vector<std::string>& traces) {
  FORETRACE_TRY(const host::UserMeasurements measurements, user_measurements(request.values));
  FORETRACE_TRY(const std::vector<std::string> files, locate_traces(traces, request.load));
  const std::optional<std::int64_t> step = request.values.integer("step"), rank = request.values.integer("rank");
  OpenBaseline out{std::make_unique<ranks::Job>(), {}};
  if (files.size() > 1) {
    FORETRACE_TRY(*out.job, ranks::load_job(files, request.load));
  }
  if (out.job->ranks.size() > 1) {
    const std::vector<std::int64_t> only = rank ? std::vector{*rank} : std::vector<std::int64_t>();
    FORETRACE_TRY(out.baseline, analysis::make_baseline(*out.job, step, measurements, only));
    if (out.baseline.figures.job) note_left_out(request, *out.job, out.baseline.figures.job->notes);
    return out;
  }
  if (out.job->ranks.empty()) {
    FORETRACE_TRY(trace::Trace trace, load_one(traces, request));
    out.job->ranks.resize(1);
    out.job->ranks.front().trace = std::move(trace);
  } else if (rank && *rank != out.job->ranks.front().rank) {
    return fail(ErrorCode::kUsage, fmt::format("no trace of rank {} among those given", *rank),
                fmt::format("there is one of rank {}", out.job->ranks.front().rank));
  } else {
    note_left_out(request, *out.job, out.job->notes);
    request.note(fmt::format("{} traces given; one can be used: {}", files.size(), out.trace().path));
  }
  FORETRACE_TRY(out.baseline, analysis::make_baseline(out.trace(), step, measurements));
  return out;
}

tl::unexpected<Error> asks_one_rank(std::string_view what) {
  return fail(ErrorCode::kDeclined, fmt::format("{}, and several were given", what), "give the trace of one rank");
}

std::optional<std::int64_t> memory_limit(const Values& values) {
  const std::optional<double> gb = values.number("memory-gb");
  return gb ? std::optional(static_cast<std::int64_t>(*gb * 1e9)) : std::nullopt;
}

Result<std::vector<analysis::ListedPrice>> price_list(const Values& values) {
  const std::optional<std::string> file = values.text("prices");
  if (!file) return std::vector<analysis::ListedPrice>();
  FORETRACE_TRY(const std::string csv, read_file(*file, kLargestTable));
  return analysis::read_prices(csv, *file);
}

Result<std::shared_ptr<const whatif::Residuals>> read_residuals(const Values& values) {
  const std::optional<std::string> path = values.text("residuals");
  if (!path) return std::shared_ptr<const whatif::Residuals>();
  FORETRACE_TRY(const std::string text, read_file(*path, kLargestTable));
  FORETRACE_TRY(whatif::Residuals table, whatif::Residuals::parse(text, *path));
  return std::make_shared<const whatif::Residuals>(std::move(table));
}

bool names_network(const Values& values) { return values.text("fabric") || values.text("collectives"); }

Result<search::Communication> network_asked(const Values& values, std::int64_t workers) {
  using whatif::kMostWorkers;
  if (workers > kMostWorkers) {
    return fail(ErrorCode::kUsage, fmt::format("{} workers are more than the limit of {}", workers, kMostWorkers),
                "larger jobs behave like one of that size: ask for that");
  }
  if (!names_network(values)) {
    return fail(ErrorCode::kUsage, "which network? neither --fabric nor --collectives is given",
                "`foretrace list fabrics` shows the names; --fabric DGX-H100, for example");
  }
  if (values.text("collectives-tag") && !values.text("collectives")) {
    return fail(ErrorCode::kUsage, "--collectives-tag without --collectives", "name the file of measured collectives");
  }
  const std::int64_t per_node = values.integer("gpus-per-node").value_or(0);
  if (per_node > kMostWorkers) {
    return fail(ErrorCode::kUsage, fmt::format("--gpus-per-node {} is more than {}", per_node, kMostWorkers),
                "it counts the GPUs of one machine");
  }
  FORETRACE_TRY_VOID(whatif::check_nodes(workers, per_node));
  search::Communication c;
  c.workers = static_cast<int>(workers);
  c.fabric = values.text("fabric").value_or("");
  c.collectives = values.text("collectives").value_or("");
  c.collectives_tag = values.text("collectives-tag").value_or("");
  c.gpus_per_node = static_cast<int>(per_node);
  return c;
}

Status can_write_code(const Values& values, const analysis::Baseline& baseline) {
  if (!values.text("code-out") || !whatif::is_compiled(baseline.model)) return {};
  return fail(ErrorCode::kUsage, "--code-out writes PyTorch scripts, and this step is an XLA program",
              "`foretrace advise` shows the lines for JAX");
}

tl::unexpected<Error> served_by_python(std::string_view what, std::string hint) {
  return fail(ErrorCode::kUsage, fmt::format("{} needs the Python command", what), std::move(hint));
}

}  // namespace foretrace::cli
