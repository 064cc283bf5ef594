#pragma once
// The command line, whole: build/foretrace and Python's `foretrace` command both call run().
//
//   return cli::run({argv + 1, argv + argc}, cli::standard_terminal());      // all of main(argc, argv)

#include <cstddef>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/search/optimize.hpp"
#include "foretrace/trace/load.hpp"

namespace foretrace::cli {

/// Where to print and what is known about it.
struct Terminal {
  std::FILE* out = stdout;
  std::FILE* err = stderr;
  bool err_is_terminal = false;  ///< a progress bar may be drawn
  std::size_t width = 100;       ///< columns for text
  bool width_known = false;      ///< a terminal or COLUMNS says so: tables are made to fit
  bool utf8 = true;
  bool colour = false;  ///< standard output is a terminal that shows colours, and NO_COLOR is not set
};

/// Standard output and error; the width of the terminal, else COLUMNS, else 100; ASCII where the locale asks for it.
Terminal standard_terminal();

/// Exit codes of every verb.
enum ExitCode : int {
  kDone = 0,
  kGateFailed = 1,
  kWrongUsage = 2,
  kUnreadableInput = 3,
  kDeclined = 4,
  kInconclusive = 5,  ///< a gate that the recordings cannot decide
  kBug = 70,
  kCannotWrite = 74,  ///< the request was right and the disk is full; as BSD's sysexits.h counts
};

/// Predicts strategies of one step of a trace, in place of this process (a cluster).
using MakeEvaluate = std::function<search::Evaluate(const std::string& trace, std::optional<std::int64_t> step,
                                                    std::optional<double> measured_ms)>;
/// Reads many traces, in place of this process: one trace or error per file, as trace::load would give them.
using ReadAll = std::function<std::vector<Result<trace::Trace>>(const std::vector<std::string>& files,
                                                                const trace::LoadOptions& options)>;

/// Answers commands about one trace as JSON, in place of this process: one document for each, in order. A command is its words, the
/// trace behind the verb.
using AnswerAll = std::function<std::vector<std::string>(const std::vector<std::vector<std::string>>& commands)>;

/// What the embedding program adds to the command line; the Python command fills in all of it. Options that need an empty one
/// are refused, with a hint at the Python command.
struct Extensions {
  std::function<Status(const std::string& file)> load_plugin = {};  ///< --plugin: calls whatif::add_whatif
  MakeEvaluate make_evaluate = {};                                  ///< optimize --ray
  ReadAll read_all = {};                                            ///< ranks --ray
  AnswerAll answer_all = {};                                        ///< plan --ray
  trace::ParquetReader parquet = {};                                ///< Nsight's Parquet export
  report::PackTable pack_table = {};                                ///< export --format parquet
};

/// Runs one command. `args` without the program's name. Never throws, never exits. A reader that closes the pipe early
/// is not an error; the caller ignores SIGPIPE.
int run(const std::vector<std::string>& args, const Terminal& terminal, const Extensions& extensions = {});
/// Prints an error that kept a command from being run, as JSON where `args` ask for it; returns its exit code.
int report_error(const Error& error, const std::vector<std::string>& args, const Terminal& terminal);

}  // namespace foretrace::cli
