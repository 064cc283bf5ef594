#pragma once
// Who predicts the candidates of `optimize`: this process, unless somebody else offers (`--ray`: the Python command does, with
// a cluster behind it).

#include <functional>
#include <optional>
#include <string>

#include "foretrace/search/optimize.hpp"

namespace foretrace::cli {

/// From the trace, the step and its measured time to something that predicts strategies of it.
using MakeEvaluate = std::function<search::Evaluate(const std::string& trace, std::optional<std::int64_t> step,
                                                    std::optional<double> measured_ms)>;

/// Empty: this process. Set before cli::run by whoever embeds it.
MakeEvaluate& other_evaluator();

}  // namespace foretrace::cli
