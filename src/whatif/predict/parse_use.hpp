#pragma once
// Parses the parameters of a known what-if: "x=2" of "batch:x=2".

#include <string_view>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// `text` is the whole use, "batch:x=2"; its name is not looked at.
Result<Use> parse_use_of(const WhatIf& whatif, std::string_view text);

}  // namespace foretrace::whatif
