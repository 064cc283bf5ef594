// How far the median step follows its costs: waits that nothing explains are kept as fixed lags, which no change shortens.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "analysis/doctor/checks.hpp"
#include "base/notable.hpp"
#include "base/readable.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::analysis {
namespace {

using Maybe = std::optional<Finding>;

std::string waits_of(const DoctorReport::Replay& replay) {
  constexpr std::size_t kShown = 3;
  std::string out;
  for (std::size_t i = 0; i < std::min(kShown, replay.unexplained_waits.size()); ++i) {
    out += (i == 0 ? "" : "; ") + replay.unexplained_waits[i];
  }
  if (replay.unexplained_waits.size() > kShown) {
    out += fmt::format("; and {} more", replay.unexplained_waits.size() - kShown);
  }
  return out.empty() ? "No single one is longer than 50 us: they are gaps between many short tasks."
                     : "The longest without a cause: " + out + ".";
}

Maybe frozen(const Facts& f) {
  if (!f.replay || f.gpu_work() == 0 || f.replay->limits.frozen_pct() <= 100 * kNotableShare) return {};
  // Hand-overs between threads are frozen too, but their cause is known.
  simulate::Limits unnamed = f.replay->limits;
  unnamed.frozen -= f.replay->hand_overs;
  if (unnamed.frozen_pct() <= 100 * kNotableShare) return {};
  const bool declined = f.replay->limits.frozen_pct() > 100 * whatif::kMostFrozenShare;
  return Finding{
      "frozen",
      declined ? Weight::kBlocks : Weight::kCosts,
      fmt::format("{:.0f} % of {} are waits that no change shortens", f.replay->limits.frozen_pct(), f.replay->step),
      fmt::format("Predictions underestimate what a change gains, and their bands are wider; above {:.0f} % they are "
                  "declined. {}",
                  100 * whatif::kMostFrozenShare, waits_of(*f.replay)),
      f.only_step() ? "record again with the missing information named here"
                    : "another step may do better: `foretrace replay` shows all of them, --step N chooses one",
      f.replay->unexplained_waits.size()};
}

// One limit of the step that its own path does not reach.
Maybe limit(const Facts& f, std::string_view name, std::string_view resource, Ns limit, std::string_view path_name,
            Ns path, double off) {
  if (std::abs(off) <= 100 * kNotableShare || f.replay->unexplained_waits.empty()) return {};
  return Finding{std::string(name),
                 Weight::kNote,
                 fmt::format("with {} infinitely fast, {} would take {} ms; {} alone is {} ms", resource,
                             f.replay->step, format_ms(limit), path_name, format_ms(path)),
                 "The difference is unexplained waits. " + waits_of(*f.replay),
                 "",
                 f.replay->unexplained_waits.size()};
}

Maybe cpu_limit(const Facts& f) {
  if (!f.replay || f.gpu_work() == 0) return {};
  const simulate::Limits& l = f.replay->limits;
  return limit(f, "cpu_limit", "the CPU", l.cpu_free, "the GPU's critical path", l.gpu_path, l.cpu_free_off_pct());
}

Maybe gpu_limit(const Facts& f) {
  if (!f.replay || f.gpu_work() == 0) return {};
  const simulate::Limits& l = f.replay->limits;
  return limit(f, "gpu_limit", "the GPU", l.gpu_free, "the CPU's work", l.cpu_work, l.gpu_free_off_pct());
}

Maybe ramp_up(const Facts& f) {
  if (!f.replay || !f.replay->ramp_up || !f.replay->period) return {};
  return Finding{"ramp_up", Weight::kCosts,
                 fmt::format("every step is ramp-up: {} took the CPU {} ms, and its work repeats every {} ms",
                             f.replay->step, format_ms(f.replay->traced), format_ms(*f.replay->period)),
                 "The CPU was still filling the GPU's queue. Predictions are about the period.",
                 "record later steps: schedule(skip_first=10, wait=1, warmup=1, active=3)"};
}

constexpr Check kChecks[] = {frozen, cpu_limit, gpu_limit, ramp_up};

}  // namespace

void examine_waits(const graph::Graph& graph, DoctorReport::Replay& replay) {
  replay.limits = simulate::limits(graph, replay.replayed);
  graph::Graph without = graph;
  for (std::size_t d = 0; d < without.dependencies(); ++d) {
    if (without.dep_kind[d] == graph::DependencyKind::kThread) without.dep_lag[d] = 0;
  }
  replay.hand_overs = replay.limits.frozen - simulate::frozen_time(without);
  replay.ramp_up = graph.ramp_up;
  if (graph.periodic && graph.period > 0) replay.period = graph.period;
  for (const simulate::LongLag& lag : simulate::long_lags(graph)) {
    replay.unexplained_waits.push_back(
        fmt::format("{} ms in front of {} on {}", format_ms(lag.lag),
                    shorten_middle(short_kernel_name(std::string(graph.task_name(lag.to))), 50),
                    graph.strings[graph.lanes[graph.lane[lag.to]].name]));
  }
}

std::vector<Finding> check_waits(const Facts& facts) { return findings_of(kChecks, facts); }

}  // namespace foretrace::analysis
