#pragma once
// A change the step already has: which sign of step_facts says so of which what-if. The driver asks before it asks for anything else.

#include <string>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// Why the use would change nothing, in the user's words; empty where the step does not have it. Only the catalogue's own what-ifs
/// are looked up: what a program made of one knows what it asks for.
std::string already_there(const Model& model, const Use& use);

}  // namespace foretrace::whatif
