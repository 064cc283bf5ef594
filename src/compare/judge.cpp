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

// A slowdown beyond the gate that the other witness excludes: the recordings contradict themselves.
bool contradicts(const Estimate& other, const Estimate& best, double gate) {
  return other.change > std::max(gate, best.high());
}

// Precise enough and no slowdown, or both witnesses exclude one.
bool may_pass(const Estimate& step, const Estimate& parts, double gate) {
  const bool by_parts = parts.noise() < step.noise();
  const Estimate &best = by_parts ? parts : step, &other = by_parts ? step : parts;
  if (std::max(step.high(), parts.high()) <= gate) return true;
  return passed(best, gate) && !contradicts(other, best, gate);
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
  } else if (!certain && may_pass(step, parts, gate)) {
    out.outcome = Outcome::kPassed;
  } else {
    const std::size_t now = std::min(evidence.before, evidence.after);
    for (std::size_t n = now + 1; n <= kMostRecordings && !out.recordings_needed; ++n) {
      const Estimate step_then = with_recordings(step, evidence.before, evidence.after, n);
      const Estimate parts_then =
          evidence.parts ? with_recordings(parts, evidence.before, evidence.after, n) : step_then;
      const bool fails = failed(step_then, gate) || failed(parts_then, gate);
      if (fails || (!certain && may_pass(step_then, parts_then, gate))) out.recordings_needed = n;
    }
  }
  return out;
}

}  // namespace foretrace::compare
