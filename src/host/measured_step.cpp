// Checks a measured step before anything is calibrated on it. Most wrong figures are slips of the unit, which the hint names.

#include "foretrace/host/measured_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "graph/busy_time.hpp"
#include "host/cpu_prior.hpp"

namespace foretrace::host {

namespace {

// Communication waits for others and may take any time.
bool computes_or_copies(graph::TaskKind kind) { return graph::is_gpu(kind) && kind != graph::TaskKind::kCollective; }

std::string shown_ms(double ms) { return fmt::format("{:.6g}", ms); }

// The unit or figure that the user may have meant, where it would fit.
std::string likely_slip(double ms, const PlausibleRange& range) {
  const auto fits = [&](double other) {
    return other * 1e6 >= double(range.least) && other * 1e6 <= double(range.most);
  };
  if (fits(ms * 1e3)) return fmt::format("seconds? in milliseconds that is {}", shown_ms(ms * 1e3));
  if (fits(ms / 1e3)) return fmt::format("microseconds? in milliseconds that is {}", shown_ms(ms / 1e3));
  if (fits(ms / 1e6)) return fmt::format("nanoseconds? in milliseconds that is {}", shown_ms(ms / 1e6));
  if (ms > 0 && fits(1e3 / ms)) return fmt::format("steps per second? a step then takes {} ms", shown_ms(1e3 / ms));
  return fmt::format("it is the time of one step without the profiler in milliseconds (not seconds?), here {} to {}",
                     shown_ms(to_ms(range.least)), shown_ms(to_ms(range.most)));
}

}  // namespace

PlausibleRange plausible_range(const graph::Graph& graph, Ns replayed) {
  PlausibleRange range;
  range.gpu_busy = graph::busy_time(graph, [&](std::size_t t) { return computes_or_copies(graph.kind[t]); });
  // The range of a step may be shorter than its period: the GPU then runs behind the CPU.
  range.traced = std::max(graph.traced, replayed);
  range.least = static_cast<Ns>(static_cast<double>(range.gpu_busy) / kVariation);
  // Where the graph replays far too short, its step would exclude everything.
  range.most = static_cast<Ns>(kVariation * static_cast<double>(std::max(range.traced, range.gpu_busy)));
  return range;
}

Result<Ns> plausible_step(const graph::Graph& graph, Ns replayed, double ms) {
  const PlausibleRange range = plausible_range(graph, replayed);
  const bool too_short = !(ms > 0) || ms * 1e6 < static_cast<double>(range.least);
  if (!too_short && ms * 1e6 <= static_cast<double>(range.most)) return static_cast<Ns>(std::llround(ms * 1e6));
  const std::string why = !too_short
                              ? fmt::format("with the profiler it takes {} ms, and it cannot take longer without it",
                                            shown_ms(to_ms(range.traced)))
                          : !(ms > 0) ? std::string("a step takes time")
                                      : fmt::format("its GPU work alone takes {} ms", shown_ms(to_ms(range.gpu_busy)));
  return fail(ErrorCode::kUsage, fmt::format("a step of {} ms is impossible: {}", shown_ms(ms), why),
              likely_slip(ms, range));
}

Result<Measured> measured_step(const trace::Trace& trace, const graph::Graph& graph, Ns replayed,
                               const UserMeasurements& user) {
  Measured out;
  out.prior = cpu_prior(trace, graph, user.host);
  if (user.measured_ms) {
    Result<Ns> step = plausible_step(graph, replayed, *user.measured_ms);
    if (!step) {
      step.error().message = "--measured-ms: " + step.error().message;
      return forward(step);
    }
    out.step = *step;
    return out;
  }
  const std::optional<double> stored = recorder_figures(trace).measured_ms;
  if (!stored) return out;
  const Result<Ns> step = plausible_step(graph, replayed, *stored);
  if (step) {
    out.step = *step;
    out.recorded = true;
  } else {
    out.refused = fmt::format("the measured step the recorder stored is not used: {} ({})", step.error().message,
                              step.error().hint);
  }
  return out;
}

}  // namespace foretrace::host
