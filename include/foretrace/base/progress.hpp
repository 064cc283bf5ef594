#pragma once
// The library reports progress through this callback and never prints. `cli/` draws a bar from it.

#include <cstdint>
#include <functional>
#include <string_view>

namespace foretrace {

/// what: "reading trace.json.gz"; done and total in the same unit, total 0 when unknown. May be called from any one
/// thread at a time, at most a few hundred times a second.
using Progress = std::function<void(std::string_view what, std::uint64_t done, std::uint64_t total)>;

}  // namespace foretrace
