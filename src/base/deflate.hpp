#pragma once
// gzip, for what foretrace writes itself.

#include <string>
#include <string_view>

#include "foretrace/base/result.hpp"

namespace foretrace {

/// One gzip member. The same text gives the same bytes: the header carries no time and no name.
Result<std::string> deflate_gzip(std::string_view text);

}  // namespace foretrace
