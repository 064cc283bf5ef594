#include "whatif/predict/bands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "foretrace/whatif/model.hpp"
#include "hardware/estimate.hpp"
#include "hardware/spreads.hpp"
#include "host/step_spread.hpp"
#include "whatif/model/simulate_model.hpp"
#include "whatif/predict/deviations.hpp"
#include "whatif/predict/kernel_errors.hpp"
#include "whatif/predict/other_gpu.hpp"
#include "whatif/predict/predictor.hpp"
#include "whatif/rewrite/scaling.hpp"

namespace foretrace::whatif {

namespace {

using graph::Origin;

// Families that hold less of the GPU's time than this cannot move the band beyond the rounding of its third digit, and cost two simulations
// each.
constexpr double kLeastShare = 0.002;

// A change makes nothing better known. The band is as wide as that of the step as it is, unless the changed step depends less on
// what is not known of that one: it is moved to both ends of what calibration left free, as that step was (unprofiled.cpp).
void widen_to_baseline(Deviations& deviations, const graph::Graph& g, const Model& base) {
  const host::Unprofiled& own = base.base;
  if (own.step <= 0 || own.low <= 0) return;
  const auto step = static_cast<double>(own.step);
  const double own_up = std::log(static_cast<double>(own.high) / step);
  const double own_down = std::log(step / static_cast<double>(own.low));
  if (deviations.holds(own_up, own_down)) return;  // saves two simulations
  const auto free = [&](std::size_t t, double sign) {
    const std::size_t part = host::step_part(g, t);
    return sign * kTenthPercentile * own.sigma[part] + (sign > 0 && part < host::kCpuPhases ? own.slower[part] : 0.0);
  };
  const double gpu = kTenthPercentile * own.sigma[host::kGpuPart];
  const double up = deviations.moved([&](std::size_t t) { return free(t, 1); }) + std::log1p(gpu);
  const double down = -deviations.moved([&](std::size_t t) { return free(t, -1); }) - std::log1p(-gpu);
  deviations.at_least("as it is", std::min(up, own_up), std::min(down, own_down),
                      "the unchanged step without the profiler is itself uncertain");
}

// Recorded steps that differ show what the model of one step does not hold.
void widen_to_recorded_steps(Deviations& deviations, const Model& base) {
  const graph::StepSpread& all = base.graph.recorded_steps;
  const std::optional<host::LogSpread> spread = host::recorded_spread(base.graph);
  if (!spread) return;
  deviations.at_least(std::string(kRecordedStepsFamily), spread->up, spread->down,
                      fmt::format("the {} recorded steps took {:.4g} to {:.4g} ms (10th to 90th percentile)", all.steps,
                                  to_ms(all.low), to_ms(all.high)));
}

// "the GPU is not in the list": kernels that change are computed from figures of another.
std::string gpu_why(const Model& base) {
  return base.device.name.empty()
             ? "the GPU is unknown: " + base.device_guess
             : "the GPU is not in the list of devices: " +
                   std::string(base.device_guess.starts_with("by ") ? "found " : "") + base.device_guess;
}

// Every family of errors of a changed step, each with its reason.
class ErrorFamilies {
 public:
  ErrorFamilies(const Model& changed, ModelRuns& runs, Ns step, const Model& base, Ns today)
      : changed_(changed),
        base_(base),
        g_(changed.graph),
        residuals_(base.residuals ? *base.residuals : Residuals::built_in(base.device.name)),
        step_(step),
        today_(today),
        deviations_(g_, runs, step) {
    for (std::size_t t = 0; t < g_.size(); ++t) {
      if (is_kernel(t)) kernel_time_ += static_cast<double>(g_.cost[t]);
    }
  }

  // How far the host's time was off on measured steps, which were timed before the change. Where this one was not timed, or its
  // time says nothing of the CPU, what the trace leaves open of it comes on top, but for the host's moment: that is in both.
  void add_host() {
    const double host = residuals_.sigma(kHostFamily);
    const double moment = base_.host.uncertainty.run_to_run;
    std::array<double, host::kStepParts> cpu{};
    double widest = 0;
    for (std::size_t p = 0; p < host::kStepParts; ++p) {
      if (p == host::kGpuPart) continue;
      const double open = base_.base.sigma[p];
      cpu[p] = std::max(open, std::hypot(host, std::sqrt(std::max(0.0, open * open - moment * moment))));
      if (p < host::kCpuPhases) widest = std::max(widest, cpu[p]);
    }
    deviations_.add_uneven(std::string(kHostFamily), widest,
                           "CPU time differs between runs, and from what the trace shows under the profiler",
                           [&](std::size_t t, bool up) {
                             const std::size_t p = host::step_part(g_, t);
                             const bool slower = up && p < host::kCpuPhases;
                             return cpu[p] + (slower ? base_.base.slower[p] / kTenthPercentile : 0.0);
                           });
  }

  void add_gpu_clocks() {
    const double gpu = base_.base.sigma[host::kGpuPart];
    deviations_.add("gpu", gpu, "GPU clocks differ between runs",
                    [&](std::size_t t) { return graph::is_gpu(g_.kind[t]) ? gpu : 0.0; });
  }

  void add_communication() {
    if (!changed_.interference || changed_.interference->communication_sigma <= 0) return;
    const double sigma = changed_.interference->communication_sigma;
    deviations_.add("communication", sigma, "collectives are modelled",
                    [&](std::size_t t) { return communicates(t) ? sigma : 0.0; });
  }

  void add_scaled_and_modelled_kernels() {
    const KernelSigmas kernels = kernel_sigmas(changed_);
    const auto scaled = [&](std::size_t t) {
      return is_kernel(t) && g_.origin[t] == Origin::kScaled && !is_written(changed_, t);
    };
    if (matters(scaled)) {
      const double sigma = std::max(residuals_.sigma(kScaledFamily), kernels.scaled);
      deviations_.add(std::string(kScaledFamily), sigma, "measured kernels are scaled to their new sizes",
                      [&](std::size_t t) { return scaled(t) ? sigma : 0.0; });
    }
    for (std::size_t f = 0; f < kErrorFamilies.size(); ++f) {
      const auto modelled = [&](std::size_t t) {
        return is_kernel(t) && g_.origin[t] > Origin::kScaled && error_family(family_of(changed_, t)) == f &&
               !is_written(changed_, t);
      };
      if (!matters(modelled)) continue;
      const double measured = residuals_.sigma(kErrorFamilies[f]);
      const double sigma = std::hypot(std::max(measured, kernels.modelled[f]), kernels.elsewhere[f]);
      std::string why = fmt::format("{} kernels are modelled", kErrorFamilies[f]);
      if (kernels.modelled[f] > measured) why += ", with few measured kernels of such shapes";
      if (kernels.elsewhere[f] > 0)
        why += fmt::format(", from those of a {}", hardware::measured_device(changed_.device).name);
      deviations_.add(std::string(kErrorFamilies[f]), sigma, std::move(why),
                      [&](std::size_t t) { return modelled(t) ? sigma : 0.0; });
    }
  }

  // One author writes them all: they err together.
  void add_written_kernels() {
    const auto written = [&](std::size_t t) { return is_kernel(t) && is_written(changed_, t); };
    if (!matters(written)) return;
    const double sigma = hardware::spreads().unmeasured;
    deviations_.add(std::string(kWrittenFamily), sigma, "kernels that have to be written may be slower or faster",
                    [&](std::size_t t) { return written(t) ? sigma : 0.0; });
  }

  // On another GPU: one error in its bandwidth moves every kernel that stays the same, one in its products all of them.
  void add_moved_kernels() {
    const auto sigma_of = [&](std::size_t t) {
      return graph::is_gpu(g_.kind[t]) ? changed_.moved_sigma[static_cast<std::size_t>(family_of(changed_, t))] : 0.0;
    };
    std::array<double, kErrorFamilies.size()> moved = {};
    std::array<double, kErrorFamilies.size()> spread = {};
    for (std::size_t t = 0; t < g_.size(); ++t) {
      const double sigma = sigma_of(t);
      if (sigma <= 0) continue;
      const std::size_t f = error_family(family_of(changed_, t));
      moved[f] += static_cast<double>(g_.cost[t]);
      spread[f] += sigma * static_cast<double>(g_.cost[t]);
    }
    for (std::size_t f = 0; f < kErrorFamilies.size(); ++f) {
      if (moved[f] <= kLeastShare * kernel_time_) continue;
      deviations_.add("moved " + std::string(kErrorFamilies[f]), spread[f] / moved[f],
                      fmt::format("{} kernels are moved to {}", kErrorFamilies[f], changed_.device.name),
                      [&](std::size_t t) { return error_family(family_of(changed_, t)) == f ? sigma_of(t) : 0.0; });
    }
  }

  // Waits that nothing explains were kept as they were. Should they follow the change as the rest of the step does, the step would
  // come out further from today's, and never nearer.
  void add_unexplained_waits() {
    if (base_.frozen_share() <= 0) return;
    const auto before = static_cast<double>(today_);
    const auto after = static_cast<double>(step_);
    const double frozen = std::min(base_.frozen_share() * before, kLargestDeviation * std::min(before, after));
    const double followed = before * (after - frozen) / (before - frozen);
    deviations_.add_toward(
        "unexplained waits", std::log(followed / after),
        fmt::format("{:.1f} % of the step are waits that nothing explains", 100 * base_.frozen_share()));
  }

  // What kinds of changes were made, and how many, apart from the kernels they touch.
  void add_kinds_of_change() {
    // How a captured step starts and how closely its kernels follow each other, no launch of the trace shows.
    const bool captured = std::any_of(changed_.applied.begin(), changed_.applied.end(),
                                      [](const Model::Applied& a) { return a.changes == Changes::kLaunches; });
    if (captured && residuals_.models(kLaunchFamily) > 0) {
      deviations_.add_whole(std::string(kLaunchFamily), residuals_.sigma(kLaunchFamily),
                            "no launch of the trace shows how a captured step starts");
    }
    // Changes are fitted one by one; one stacked on others changes kernels and a host that the fit has not seen.
    if (changed_.applied.size() > base_.applied.size() + 1) {
      const auto more = static_cast<double>(changed_.applied.size() - base_.applied.size() - 1);
      deviations_.add_whole(std::string(kCombinedFamily), residuals_.sigma(kCombinedFamily) * std::sqrt(more),
                            "several changes affect each other");
    }
  }

  // What the trace leaves open, whatever was changed.
  void add_trace() {
    // What the model says of a GPU that no file describes is off by as much as boards of its architecture differ.
    if (!base_.device_guess.empty()) {
      const double sigma =
          base_.device.guessed_sigma > 0 ? base_.device.guessed_sigma : Residuals::unmeasured(base_.device.name);
      deviations_.add(std::string(kUnknownGpuFamily), sigma, gpu_why(base_), [&](std::size_t t) {
        return graph::is_gpu(g_.kind[t]) && g_.origin[t] >= Origin::kScaled ? sigma : 0.0;
      });
    }
    if (!changed_.validated) {
      deviations_.add_whole("not validated", Residuals::unmeasured(base_.device.name),
                            "no measured step checked this change");
    }
    if (base_.graph.recorded_steps.steps == 1 && !base_.base.calibrated) {
      deviations_.add_whole(std::string(kOneStepFamily), host::one_step_sigma(),
                            "one step was recorded: nothing shows how much steps differ");
    }
    if (const graph::Startup& startup = base_.graph.notes.startup; startup.time() > 0) {
      deviations_.add_whole(std::string(kStartupFamily),
                            std::log1p(static_cast<double>(startup.unsure) / static_cast<double>(today_)),
                            "start-up work was taken out of the step, and more of it may be start-up");
    }
  }

  Band finish() {
    widen_to_learnt(deviations_, changed_, base_);
    add_driver();
    widen_to_baseline(deviations_, g_, base_);
    widen_to_recorded_steps(deviations_, base_);
    return deviations_.finish();
  }

 private:
  // Launches under another maker's driver, which matter as far as the GPU waits for them. What published steps were off by is the GPU's own
  // time, so this comes on top.
  void add_driver() {
    const double sigma = changed_.driver_sigma;
    if (sigma <= 0) return;
    const std::vector<bool> calls = launch_calls(g_);
    deviations_.add("driver", sigma, fmt::format("launch calls are those of {}'s driver", changed_.device.name),
                    [&](std::size_t t) { return calls[t] ? sigma : 0.0; });
  }

  [[nodiscard]] bool communicates(std::size_t t) const { return g_.kind[t] == graph::TaskKind::kCollective; }
  // Collectives that a what-if added are a family of their own.
  [[nodiscard]] bool is_kernel(std::size_t t) const {
    return graph::is_gpu(g_.kind[t]) && !(changed_.interference && communicates(t));
  }
  template <class Belongs>
  [[nodiscard]] bool matters(Belongs belongs) const {
    double time = 0;
    for (std::size_t t = 0; t < g_.size(); ++t) {
      if (belongs(t)) time += static_cast<double>(g_.cost[t]);
    }
    return time > kLeastShare * kernel_time_;
  }

  const Model& changed_;
  const Model& base_;
  const graph::Graph& g_;
  const Residuals& residuals_;
  Ns step_, today_;
  Deviations deviations_;
  double kernel_time_ = 0;
};

}  // namespace

Band band_around(const Model& changed, ModelRuns& runs, Ns step, const Model& base, Ns today) {
  ErrorFamilies families(changed, runs, step, base, today);
  families.add_host();
  families.add_gpu_clocks();
  families.add_communication();
  families.add_scaled_and_modelled_kernels();
  families.add_written_kernels();
  families.add_moved_kernels();
  families.add_unexplained_waits();
  families.add_kinds_of_change();
  families.add_trace();
  return families.finish();
}

std::vector<std::string> Prediction::band_reasons() const {
  std::vector<const BandPart*> parts;
  for (const BandPart& part : band) {
    if (part.up + part.down > 0 && !part.why.empty()) parts.push_back(&part);
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const BandPart* a, const BandPart* b) { return a->up + a->down > b->up + b->down; });
  std::vector<std::string> reasons;
  for (const BandPart* part : parts) {
    const double whole = static_cast<double>(std::max<Ns>(1, step)) / 100;
    reasons.push_back(fmt::format("{}: -{:.1f} % to +{:.1f} %", part->why, static_cast<double>(part->down) / whole,
                                  static_cast<double>(part->up) / whole));
  }
  return reasons;
}

std::vector<FamilyTime> family_times(const Model& model) {
  const graph::Graph& g = model.graph;
  std::array<FamilyTime, work::kFamilies> times{};
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t])) continue;
    times[static_cast<std::size_t>(family_of(model, t))].time[static_cast<std::size_t>(g.origin[t])] += g.cost[t];
  }
  std::vector<FamilyTime> out;
  for (std::size_t f = 0; f < work::kFamilies; ++f) {
    if (times[f].total() == 0) continue;
    times[f].family = to_string(static_cast<work::Family>(f));
    times[f].errors = kErrorFamilies[error_family(static_cast<work::Family>(f))];
    out.push_back(times[f]);
  }
  return out;
}

}  // namespace foretrace::whatif
