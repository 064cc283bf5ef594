#include "foretrace/host/measured_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "host/cpu_prior.hpp"

namespace foretrace::host {

namespace {

// Of 31 models on an H200 measured with and without the profiler, the real step took 1.004 to 11.5 times the GPU's busy time
// and 0.45 to 1.018 times the traced step (tools/accuracy.py's base rows). The room left is for hosts and clocks that vary
// more than those did.
constexpr double kLeastOfBusy = 0.95;
constexpr double kMostOfTraced = 1.2;

// Time in which some kernel or copy ran; communication waits for others and may take any time.
Ns busy_time(const graph::Graph& g) {
  std::vector<std::pair<Ns, Ns>> work;
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t]) || g.kind[t] == graph::TaskKind::kCollective) continue;
    work.emplace_back(g.measured[t], g.measured[t] + g.cost[t]);
  }
  std::sort(work.begin(), work.end());
  Ns busy = 0;
  Ns until = INT64_MIN;
  for (const auto& [begin, end] : work) {
    const Ns from = std::max(begin, until);
    busy += std::max<Ns>(0, end - from);
    until = std::max(until, end);
  }
  return busy;
}

std::string shown_ms(double ms) { return fmt::format("{:.6g}", ms); }

// The unit or the figure somebody may have had in hand instead, when it would fit.
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
  range.gpu_busy = busy_time(graph);
  // The range of a step may be shorter than its period: the GPU then runs behind the CPU.
  range.traced = std::max(graph.traced, replayed);
  range.least = static_cast<Ns>(kLeastOfBusy * static_cast<double>(range.gpu_busy));
  range.most = static_cast<Ns>(kMostOfTraced * static_cast<double>(range.traced));
  // Where the graph replays far too short, the two would exclude everything.
  range.most = std::max(range.most, static_cast<Ns>(kMostOfTraced * static_cast<double>(range.gpu_busy)));
  return range;
}

Result<Ns> plausible_step(const graph::Graph& graph, Ns replayed, double ms) {
  const PlausibleRange range = plausible_range(graph, replayed);
  const bool too_short = !(ms > 0) || ms * 1e6 < static_cast<double>(range.least);
  if (!too_short && ms * 1e6 <= static_cast<double>(range.most)) return static_cast<Ns>(std::llround(ms * 1e6));
  const std::string why = !too_short  ? fmt::format("with the profiler it takes {} ms, and without it no longer",
                                                    shown_ms(to_ms(range.traced)))
                          : !(ms > 0) ? std::string("a step takes time")
                                      : fmt::format("the GPU alone works {} ms in it", shown_ms(to_ms(range.gpu_busy)));
  return fail(ErrorCode::kUsage, fmt::format("a step of {} ms is impossible: {}", shown_ms(ms), why),
              likely_slip(ms, range));
}

Result<Measured> measured_step(const trace::Trace& trace, const graph::Graph& graph, Ns replayed,
                               const UserMeasurements& told) {
  Measured out;
  out.prior = cpu_prior(trace, graph, told.host);
  if (told.measured_ms) {
    Result<Ns> step = plausible_step(graph, replayed, *told.measured_ms);
    if (!step) {
      step.error().message = "--measured-ms: " + step.error().message;
      return forward(step);
    }
    out.step = *step;
    return out;
  }
  const std::optional<double> stored = recorded_ms(trace);
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
