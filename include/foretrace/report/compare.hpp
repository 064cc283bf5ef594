#pragma once
// compare: two sides of one program as sentences and tables; in markdown for a pull request.

#include <string>
#include <vector>

#include "foretrace/compare/compare.hpp"
#include "foretrace/report/text_style.hpp"

namespace foretrace::report {

/// What there is to say, the answer first. One sentence each, without a line break.
std::vector<std::string> sentences(const compare::Comparison& comparison);

std::string to_text(const compare::Comparison& comparison, const TextStyle& style = {});
/// An object that starts with "schema": 1.
std::string to_json(const compare::Comparison& comparison);
/// For a comment under a pull request: sentences, then tables folded away.
std::string to_markdown(const compare::Comparison& comparison, std::size_t top = 10);

}  // namespace foretrace::report
