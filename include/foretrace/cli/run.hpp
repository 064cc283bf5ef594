#pragma once
// The command line, whole: build/foretrace and Python's `foretrace` command both call run().
//
//   return cli::run({argv + 1, argv + argc}, cli::standard_terminal());      // all of main(argc, argv)

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "foretrace/base/result.hpp"

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

}  // namespace foretrace::cli
