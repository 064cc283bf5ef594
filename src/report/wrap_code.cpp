#include "report/wrap_code.hpp"

#include <algorithm>

#include "base/readable.hpp"

namespace foretrace::report {
namespace {

// What the text up to a place leaves open.
struct State {
  int brackets = 0;
  char quote = 0;
  bool comment = false;

  void read(std::string_view text) {
    for (const char c : text) {
      if (comment) return;
      if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (c == '\'' || c == '"') {
        quote = c;
      } else if (c == '#') {
        comment = true;
      } else if (c == '(' || c == '[' || c == '{') {
        ++brackets;
      } else if (c == ')' || c == ']' || c == '}') {
        --brackets;
      }
    }
  }
};

// The code from `at` to the next space at which a line may end.
std::string_view next_piece(std::string_view code, const State& before) {
  State state = before;
  std::size_t end = 0;
  while (end < code.size() && (code[end] != ' ' || state.quote != 0)) state.read(code.substr(end++, 1));
  return code.substr(0, end);
}

}  // namespace

std::string wrap_code(std::string_view code, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  State state;
  bool blank = true;  // nothing on this line yet
  while (!code.empty()) {
    const std::size_t spaces = std::min(code.find_first_not_of(' '), code.size());
    code.remove_prefix(spaces);
    const std::string_view piece = next_piece(code, state);
    const std::string_view rest = code.substr(piece.size());
    const bool plain = state.brackets == 0 && !state.comment && !piece.starts_with('#');
    // The backslash that may follow needs its place too.
    State after = state;
    after.read(piece);
    const std::size_t mark = !rest.empty() && after.brackets == 0 && !after.comment ? 2 : 0;
    // A comment starts on a line of its own where it would not fit as a whole.
    const std::size_t needed =
        piece.starts_with('#') && !state.comment ? display_width(code) : display_width(piece) + mark;
    if (!blank && column + spaces + needed > width) {
      out += plain ? " \\\n" : "\n";
      out.append(indent, ' ');
      column = indent;
      if (state.comment) {
        out += "# ";
        column += 2;
      }
    } else {
      out.append(blank ? 0 : spaces, ' ');
      column += blank ? 0 : spaces;
    }
    out += piece;
    column += display_width(piece);
    blank = false;
    state = after;
    code = rest;
  }
  return out;
}

}  // namespace foretrace::report
