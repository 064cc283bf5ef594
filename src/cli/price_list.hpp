#pragma once
// What --prices names: what GPUs cost for an hour, for the verbs that say what a step would cost elsewhere.

#include <string>
#include <vector>

#include "analysis/gpus.hpp"
#include "foretrace/base/result.hpp"

namespace foretrace::cli {

Result<std::vector<hardware::ListedPrice>> read_price_list(const std::string& file);

}  // namespace foretrace::cli
