#pragma once
// `foretrace list whatifs`: the catalogue and what plugins added, as a table, in full, for the documentation or as JSON. All of
// it comes from the descriptions.

#include "cli/verb.hpp"

namespace foretrace::cli {

Result<Answer> list_whatifs(const Request& request);

}  // namespace foretrace::cli
