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
#include "foretrace/search/optimize.hpp"
#include "foretrace/trace/load.hpp"

namespace foretrace::cli {

/// Where to print and what is known about it.
struct Terminal {
  std::FILE* out = stdout;
  std::FILE* err = stderr;
  bool err_is_terminal = false;  ///< a progress bar may be drawn
  std::size_t width = 100;       ///< columns for text
  bool utf8 = true;
};

/// Standard output and error; the width of the terminal, else COLUMNS, else 100; ASCII where the locale asks for it.
Terminal standard_terminal();

/// Exit codes every verb keeps to.
enum ExitCode : int {
  kDone = 0,
  kGateFailed = 1,
  kWrongUsage = 2,
  kUnreadableInput = 3,
  kDeclined = 4,
  kBug = 70,
  kCannotWrite = 74,  ///< the request was right and the disk is full; as BSD's sysexits.h counts
};

/// Runs one command. `args` without the program's name. Never throws, never exits. A reader that closes the pipe early
/// is not an error; the caller ignores SIGPIPE.
int run(const std::vector<std::string>& args, const Terminal& terminal);
/// Prints an error that kept a command from being run, as JSON where `args` ask for it; gives its exit code.
int report_error(const Error& error, const std::vector<std::string>& args, const Terminal& terminal);

// Who predicts the candidates of `optimize`: this process, unless somebody else offers (`--ray`: the Python command does, with
// a cluster behind it).

/// From the trace, the step and its measured time to something that predicts strategies of it.
using MakeEvaluate = std::function<search::Evaluate(const std::string& trace, std::optional<std::int64_t> step,
                                                    std::optional<double> measured_ms)>;

/// Empty: this process. Set before cli::run by whoever embeds it.
MakeEvaluate& other_evaluator();

// Who makes the what-ifs of a plugin known (`--plugin FILE`): nobody, unless somebody offers. The Python command does, for
// files of Python.

/// Adds the what-ifs of a file to those the library knows (whatif::add_whatif), or says what is wrong with it and where.
using LoadPlugin = std::function<Status(const std::string& file)>;

/// Empty: plugins are refused. Set before cli::run by whoever embeds it.
LoadPlugin& plugin_loader();

// Who reads the traces of many ranks: this process, unless somebody else offers (`--ray`: the Python command does, with a
// cluster behind it).

/// One trace or error per file, as trace::load would give them.
using ReadAll = std::function<std::vector<Result<trace::Trace>>(const std::vector<std::string>& files,
                                                                const trace::LoadOptions& options)>;

/// Empty: this process. Set before cli::run by whoever embeds it.
ReadAll& other_reader();

}  // namespace foretrace::cli
