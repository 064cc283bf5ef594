#pragma once
// "Did you mean": the known name closest to what was typed. Used for verbs, options, files and every named thing.
//
//   closest_match("sumary", {"doctor", "summary"})   -> "summary"
//   closest_match("xyzzy",  {"doctor", "summary"})   -> nothing: a wrong suggestion is worse than none

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foretrace {

/// Edits (insert, delete, replace, swap of two neighbours) that turn `a` into `b`, ignoring ASCII case.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate closest to `word`, if it is close: at most one edit in three characters, or `word` begins exactly one
/// candidate. Of equally close ones the first.
std::optional<std::string> closest_match(std::string_view word, const std::vector<std::string>& candidates);

/// "did you mean 'summary'?", or an empty string when nothing is close.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace foretrace
