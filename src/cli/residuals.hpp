#pragma once
// What --residuals names: how far predictions were off, for the verbs that put a band around one.

#include <memory>

#include "cli/verb.hpp"
#include "foretrace/whatif/model.hpp"

namespace foretrace::cli {

inline constexpr std::size_t kLargestResiduals = 1 << 20;  // a line per family and model: thousands of models fit

/// Null: the built-in ones.
Result<std::shared_ptr<const whatif::Residuals>> read_residuals(const Request& request);

}  // namespace foretrace::cli
