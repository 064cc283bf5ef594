#pragma once
// Colour for people who read in a terminal: headings bold, verdicts coloured. Tables stay as they are.

#include <string>
#include <string_view>

namespace foretrace::cli {

/// "auto": a terminal that shows colours; "always", "never".
bool wants_colour(std::string_view asked, bool terminal_has_it);

/// The text of an answer with escape sequences. A heading begins a paragraph without indentation; a verdict is a line such as
/// "GPU-bound: …" or the outcome of a gate.
std::string coloured(std::string_view text);

}  // namespace foretrace::cli
