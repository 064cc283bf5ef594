#pragma once
// Other common spellings of a change: "pp:balance" for "stage-balance", "fabric=10GbE" for "network:fabric=10GbE". A what-if
// adds its own next to where it registers itself.

#include <string>
#include <string_view>

namespace foretrace::whatif {

class AlsoWritten {
 public:
  /// A use that begins with `other` means one that begins with `name` instead.
  AlsoWritten(std::string other, std::string name);
};

/// A use of a what-if in the spelling of the catalogue; any other text as it is.
std::string written_out(std::string_view use);

}  // namespace foretrace::whatif
