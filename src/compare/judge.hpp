#pragma once
// Passed, failed or inconclusive: a gate in view of noise.

#include <cstddef>
#include <optional>

#include "compare/noise.hpp"
#include "foretrace/compare/compare.hpp"

namespace foretrace::compare {

/// What is known about the change of the step: its own figure and, independently, what follows from its parts.
struct Evidence {
  Estimate step;
  std::optional<Estimate> parts;
  std::size_t before = 1, after = 1;  ///< recordings
};

struct Judgement {
  Outcome outcome = Outcome::kInconclusive;
  bool by_parts = false;
  std::optional<std::size_t> recordings_needed;  ///< per side, of an inconclusive outcome
};

/// Failed: one of the two is slower than the gate beyond its noise. Passed: the more precise one is precise enough and shows no slowdown
/// beyond the gate, or both exclude one.
Judgement judge(const Evidence& evidence, double gate_pct);

}  // namespace foretrace::compare
