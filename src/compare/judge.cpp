#include "compare/judge.hpp"

#include <algorithm>
#include <cmath>

namespace foretrace::compare {
namespace {

// A pass is worth nothing where the noise would hide a slowdown that everybody would notice: a choice.
constexpr double kLargestNoise = 0.25;
// Nobody makes more recordings than this to decide one gate.
constexpr std::size_t kMostRecordings = 100;

bool failed(const Estimate& e, double gate) { return e.low() > gate; }

// Not slower by more than the gate, or not slower beyond noise.
bool passed(const Estimate& e, double gate) {
  return e.noise() <= std::max(gate, std::log1p(kLargestNoise)) && (e.change <= gate || e.low() <= 0);
}

}  // namespace

Judgement judge(const Evidence& evidence, double gate_pct) {
  const double gate = std::log1p(gate_pct / 100);
  const Estimate& step = evidence.step;
  const Estimate& parts = evidence.parts ? *evidence.parts : step;
  Judgement out;
  out.by_parts = parts.noise() < step.noise();
  const Estimate& best = out.by_parts ? parts : step;
  out.decisive = best;
  const bool certain = evidence.certain_parts && failed(*evidence.certain_parts, gate);
  // A slower part fails the gate unless the step's own figure excludes what it would do to the step.
  const bool slower_part = failed(parts, gate) || (certain && step.high() > evidence.certain_parts->low());
  if (failed(step, gate) || slower_part) {
    out.outcome = Outcome::kFailed;
    out.by_parts = !failed(step, gate);
    out.decisive = failed(step, gate) ? step : failed(parts, gate) ? parts : *evidence.certain_parts;
  } else if (!certain && (passed(best, gate) || std::max(step.high(), parts.high()) <= gate)) {
    out.outcome = Outcome::kPassed;
  } else {
    const std::size_t now = std::min(evidence.before, evidence.after);
    for (std::size_t n = now + 1; n <= kMostRecordings && !out.recordings_needed; ++n) {
      const Estimate then = with_recordings(best, evidence.before, evidence.after, n);
      if (failed(then, gate) || passed(then, gate)) out.recordings_needed = n;
    }
  }
  return out;
}

}  // namespace foretrace::compare
