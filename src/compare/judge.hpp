#pragma once
// Passed, failed or inconclusive: the outcome of a gate, given the noise.

#include <cstddef>
#include <optional>

#include "compare/noise.hpp"
#include "foretrace/compare/compare.hpp"

namespace foretrace::compare {

/// What is known about the change of the step: its own figure and, independently, what follows from its parts.
struct Evidence {
  Estimate step;
  std::optional<Estimate> parts;
  std::optional<Estimate> certain_parts;  ///< what follows from the parts that changed beyond their own noise
  std::size_t before = 1, after = 1;      ///< recordings
};

struct Judgement {
  Outcome outcome = Outcome::kInconclusive;
  bool by_parts = false;
  Estimate decisive;                             ///< the change that the outcome rests on
  std::optional<std::size_t> recordings_needed;  ///< per side, of an inconclusive outcome
};

/// Failed: the step's figure or its parts are slower than the gate beyond noise. Passed: the more precise of the two is precise enough and
/// shows no slowdown beyond the gate, or both exclude one; no part that is slower for certain says otherwise, and the other figure shows no
/// slowdown that the more precise one excludes.
Judgement judge(const Evidence& evidence, double gate_pct);

}  // namespace foretrace::compare
