#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "foretrace/cli/run.hpp"

namespace foretrace::cli {
namespace {

constexpr std::size_t kNarrowest = 60, kWidest = 160;

std::string_view variable(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read once, before any thread starts
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

// 0 where nothing says it.
std::size_t terminal_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) != 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  const std::string_view columns = variable("COLUMNS");
  const auto number = static_cast<std::size_t>(std::strtoul(std::string(columns).c_str(), nullptr, 10));
  return number;
}

// A locale that was set to something without UTF-8 was set on purpose; no locale at all is just a bare container.
bool speaks_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = variable(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != std::string_view::npos || value.find("utf8") != std::string_view::npos ||
           value.find("UTF8") != std::string_view::npos || value.find("utf-8") != std::string_view::npos;
  }
  return true;
}

}  // namespace

Terminal standard_terminal() {
  Terminal terminal;
  terminal.err_is_terminal = ::isatty(STDERR_FILENO) != 0;
  const std::size_t width = terminal_width();
  terminal.width_known = width > 0;
  if (terminal.width_known) terminal.width = std::clamp(width, kNarrowest, kWidest);
  terminal.utf8 = speaks_utf8();
  // https://no-color.org: set and not empty
  terminal.colour = ::isatty(STDOUT_FILENO) != 0 && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
  return terminal;
}

}  // namespace foretrace::cli
