#pragma once
// What a search compares strategies by.

#include "foretrace/search/optimize.hpp"

namespace foretrace::search {

/// Bytes a strategy may take: what was asked for, else the device's memory less what the driver keeps; none where unknown.
std::optional<std::int64_t> memory_limit(const whatif::Model& model, std::optional<std::int64_t> asked);

}  // namespace foretrace::search
