#pragma once
// Comparisons of traces and of jobs take the same options.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "foretrace/compare/compare.hpp"

namespace foretrace::python {

inline compare::Options compare_options(std::optional<std::int64_t> step, std::optional<double> before_ms,
                                        std::optional<double> after_ms, std::optional<double> gate_pct,
                                        const std::vector<std::string>& whatifs) {
  compare::Options options;
  options.step = step;
  options.before_ms = before_ms;
  options.after_ms = after_ms;
  options.gate_pct = gate_pct;
  options.whatif = value_or_raise(analysis::parse_uses(whatifs));
  return options;
}

}  // namespace foretrace::python
