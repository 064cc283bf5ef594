#pragma once
// The kind of a collective, from the name of its kernel or of its record.

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
