#pragma once
// The library reports progress through this callback and never prints. `cli/` draws a bar from it.

#include <cstdint>
#include <functional>
#include <string_view>

namespace foretrace {

/// What is counted, in the plural: "steps", "files". Bytes are shown as sizes and with their rate.
inline constexpr std::string_view kBytes = "bytes";

/// what: "reading trace.json.gz"; done and total count `unit`, total 0 when unknown. May be called from any one thread at a
/// time, at most a few hundred times a second.
using Progress =
    std::function<void(std::string_view what, std::uint64_t done, std::uint64_t total, std::string_view unit)>;

}  // namespace foretrace
