// build/foretrace: the command line without Python.

#include <csignal>

#include "cli/run.hpp"

int main(int argc, char** argv) {
  // `foretrace summary … | head` closes the pipe early; the write then fails, which run() takes for what it is.
  std::signal(SIGPIPE, SIG_IGN);
  return foretrace::cli::run({argv + 1, argv + argc}, foretrace::cli::standard_terminal());
}
