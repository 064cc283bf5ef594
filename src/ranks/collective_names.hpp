#pragma once
// What names say of a collective, a kernel's or the one its record gives.

#include <string>
#include <string_view>

#include "ranks/collectives.hpp"

namespace foretrace::ranks {

/// "AllGather_RING_2" -> "allgatherring"
std::string lower_letters(std::string_view text);

CollectiveKind kind_of(std::string_view name);

/// Nothing where the id is of nothing.
inline std::string_view text_of(const trace::Trace& t, StringId id) {
  return id.valid() ? t.strings[id] : std::string_view{};
}

}  // namespace foretrace::ranks
