#include "cli/colour.hpp"

#include <algorithm>

namespace foretrace::cli {
namespace {

constexpr std::string_view kBold = "\x1b[1m", kRed = "\x1b[1;31m", kGreen = "\x1b[1;32m", kYellow = "\x1b[1;33m",
                           kCyan = "\x1b[1;36m", kPlain = "\x1b[0m";

// The colour of a verdict; empty for any other line.
std::string_view verdict_colour(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view first = line.substr(0, line.find(' '));
  if (first.ends_with("-bound:")) return kCyan;
  if (!line.starts_with("The gate of ")) return {};
  if (line.find(" holds") != std::string_view::npos) return kGreen;
  return line.find(" fails") != std::string_view::npos ? kRed : kYellow;
}

}  // namespace

bool wants_colour(std::string_view asked, bool terminal_has_it) {
  return asked == "always" || (asked != "never" && terminal_has_it);
}

std::string coloured(std::string_view text) {
  std::string out;
  bool paragraph_begins = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    std::string_view colour = verdict_colour(line);
    if (colour.empty() && paragraph_begins && !line.empty() && line.front() != ' ') colour = kBold;
    out += colour;
    out += line;
    if (!colour.empty()) out += kPlain;
    if (end < text.size()) out += '\n';
    paragraph_begins = line.empty();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace foretrace::cli
