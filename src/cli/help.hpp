#pragma once
// Help that teaches by example, written from the verbs' descriptions.

#include <string>

#include "cli/verb.hpp"

namespace foretrace::cli {

/// `foretrace --help`
std::string overview_help(std::size_t width);
/// `foretrace VERB --help`
std::string verb_help(const Verb& verb, std::size_t width);
/// "doctor TRACE..."
std::string usage_line(const Verb& verb);

}  // namespace foretrace::cli
