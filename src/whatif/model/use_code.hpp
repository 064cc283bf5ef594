#pragma once
// What functions that write the line of code of a use share (WhatIf::code_for).

#include <string>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// "for encoder.0 and 3 more", from the parameter `layers`; empty when it is not given. A list of names is no code.
std::string on_layers(const Parameters& parameters);

/// "CODE  # NOTE"; the code alone when there is no note.
std::string with_note(std::string code, const std::string& note);

}  // namespace foretrace::whatif
