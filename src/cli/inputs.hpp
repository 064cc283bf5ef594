#pragma once
// From the arguments and options of a verb to what the library takes: traces, the baseline of a step, the user's measurements,
// the network. All errors in options are reported before a trace is read.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/verb.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/analysis/gpus.hpp"
#include "foretrace/ranks/job.hpp"
#include "foretrace/search/optimize.hpp"
#include "foretrace/trace/trace.hpp"
#include "foretrace/whatif/model.hpp"

namespace foretrace::cli {

/// The trace files behind the arguments, by rank. A path that does not exist is an error that names a similar file.
Result<std::vector<std::string>> locate_traces(const std::vector<std::string>& arguments,
                                               const trace::LoadOptions& options);

/// Of several files the one of rank `--rank`, else of the lowest rank; a note says which was taken.
Result<trace::Trace> load_one(const std::vector<std::string>& arguments, const Request& request);

/// One side of a comparison: recordings of one program, or all ranks of a job.
struct Recordings {
  std::vector<trace::Trace> traces;
  std::optional<ranks::Job> job;  ///< then `traces` is empty
};
/// Several ranks are a job unless --rank picks one.
Result<Recordings> load_side(const std::vector<std::string>& named, const Request& request, const char* side);

/// All recordings of one side of a comparison. Of a job's ranks one is taken, --rank or the lowest: they are not recordings of
/// the same thing. `side` names it in messages: "BEFORE".
Result<std::vector<trace::Trace>> load_recordings(const std::vector<std::string>& named, const Request& request,
                                                  const char* side);
std::vector<const trace::Trace*> pointers(const std::vector<trace::Trace>& traces);

/// Traces and what-ifs as they stand together in one argument list: "trace.json amp fused-optimizer".
struct TracesAndChanges {
  std::vector<std::string> traces, whatifs;
};
Result<TracesAndChanges> split_arguments(const std::vector<std::string>& given);
/// The same of a verb whose arguments are TRACE and WHATIF: several traces may stand in front of the changes.
Result<TracesAndChanges> traces_and_changes(const Values& values);

/// --measured-ms and --host.
Result<host::UserMeasurements> user_measurements(const Values& values);

/// The step that predictions start from: TRACE with --step, --rank, --measured-ms and --host. The traces of several ranks are one
/// job: the change is made on all of them, or on --rank, and they are simulated together.
struct OpenBaseline {
  std::unique_ptr<ranks::Job> job;  ///< the traces; the baseline points to them
  analysis::Baseline baseline;
  [[nodiscard]] const trace::Trace& trace() const { return job->ranks.front().trace; }
};
Result<OpenBaseline> open_baseline(const Request& request, const std::vector<std::string>& traces);

/// The error of a verb that answers for one rank and was given several. `what`: "`scale` starts from one rank".
tl::unexpected<Error> asks_one_rank(std::string_view what);

/// --memory-gb in bytes.
std::optional<std::int64_t> memory_limit(const Values& values);
/// --prices.
Result<std::vector<analysis::ListedPrice>> price_list(const Values& values);

inline constexpr std::size_t kLargestTable = 1 << 20;  ///< of prices or residuals: one line each, so thousands fit
/// --residuals; null: the built-in ones.
Result<std::shared_ptr<const whatif::Residuals>> read_residuals(const Values& values);

/// Whether --fabric or --collectives is given.
bool names_network(const Values& values);
/// `workers` and the network between them; names and files are not looked up yet. An error when no network is given.
Result<search::Communication> network_asked(const Values& values, std::int64_t workers);

/// An error where --code-out asks for a PyTorch script and the step is not PyTorch's.
Status can_write_code(const Values& values, const analysis::Baseline& baseline);

/// The error of a verb or option that only the Python command serves.
tl::unexpected<Error> served_by_python(std::string_view what, std::string hint);

}  // namespace foretrace::cli
