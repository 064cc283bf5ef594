// build/foretrace: the command line without Python.

#include <csignal>

#include "cli/python_command.hpp"
#include "foretrace/cli/run.hpp"

int main(int argc, char** argv) {
  // `foretrace summary … | head` closes the pipe early; the write then fails, which run() takes for what it is.
  std::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (foretrace::cli::needs_python(args)) {
    return foretrace::cli::report_error(foretrace::cli::hand_to_python(args), args,
                                        foretrace::cli::standard_terminal());
  }
  return foretrace::cli::run(args, foretrace::cli::standard_terminal());
}
