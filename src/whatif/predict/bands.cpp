#include "whatif/predict/bands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "foretrace/whatif/model.hpp"
#include "hardware/cost.hpp"
#include "hardware/estimate.hpp"
#include "hardware/measured.hpp"
#include "hardware/transfer.hpp"
#include "host/step_spread.hpp"
#include "whatif/model/simulate_model.hpp"
#include "whatif/predict/deviations.hpp"
#include "whatif/predict/other_gpu.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::whatif {

namespace {

// Families that hold less of the GPU's time than this cannot move the band beyond the rounding of its third digit, and cost two simulations
// each.
constexpr double kLeastShare = 0.002;

work::Family family_of(const Model& m, std::size_t task) {
  const work::Work* work = m.works.of(task);
  return work == nullptr ? work::Family::kOther : work->family;
}

// What holds a kernel back decides how its model errs: an element-wise kernel, a norm and a cast all wait for memory.
constexpr std::array<std::string_view, 5> kErrorFamilies = {"gemm", "convolution", "attention", "rnn", "bandwidth"};

std::size_t error_family(work::Family family) {
  using work::Family;
  switch (family) {
    case Family::kGemm:
      return 0;
    case Family::kConvForward:
    case Family::kConvDataGrad:
    case Family::kConvWeightGrad:
      return 1;
    case Family::kAttention:
      return 2;
    case Family::kRnn:
      return 3;
    default:
      return 4;
  }
}

// What kernels add to a band by what the cost models say of each one: kernels of the same work err alike, others on their own. What steps
// showed on average covers that where a step has many kernels; one that rests on few, or on kernels unlike any measured one, is less
// certain. On a GPU whose kernels nobody measured all modelled ones of a family err together, as they do when they are carried there.
struct KernelSigmas {
  double scaled = 0;                                                  ///< all scaled kernels together
  std::array<double, kErrorFamilies.size()> modelled{}, elsewhere{};  ///< modelled ones of each family
};

KernelSigmas kernel_sigmas(const Model& m) {
  std::vector<double> modelled(m.works.size(), 0.0), scaled(m.works.size(), 0.0);
  for (std::size_t t = 0; t < m.graph.size(); ++t) {
    const std::uint32_t row = m.works.row_of(t);
    if (row >= modelled.size() || m.graph.origin[t] < graph::Origin::kScaled) continue;
    (m.graph.origin[t] == graph::Origin::kScaled ? scaled : modelled)[row] += static_cast<double>(m.graph.cost[t]);
  }
  const hardware::Device measured = hardware::measured_device(m.device);
  KernelSigmas sigmas;
  double all_scaled = 0;
  std::array<double, kErrorFamilies.size()> all{};
  for (std::size_t row = 0; row < modelled.size(); ++row) {
    const work::Work& work = m.works[row];
    all_scaled += scaled[row];
    sigmas.scaled += work.sigma * work.sigma * scaled[row] * scaled[row];
    if (modelled[row] <= 0) continue;
    // What gave the kernel its time said how sure it was; what only another what-if knows is as sure as the model is now.
    const std::size_t f = error_family(work.family);
    const hardware::Cost cost = work.sigma > 0 ? hardware::Cost{} : hardware::predict(work, m.device);
    const double off = (cost.known ? cost.sigma : work.sigma) * modelled[row];
    all[f] += modelled[row];
    sigmas.modelled[f] += off * off;
    // A step that was moved to its GPU as a whole has that in its times already.
    if (m.device.name == measured.name || m.moved_sigma[static_cast<std::size_t>(work.family)] > 0) continue;
    const hardware::Cost carried = hardware::transfer(modelled[row], modelled[row], work, {}, measured, m.device);
    sigmas.elsewhere[f] += (carried.known ? carried.sigma : hardware::kUntransferableSigma) * modelled[row];
  }
  if (all_scaled > 0) sigmas.scaled = std::sqrt(sigmas.scaled) / all_scaled;
  for (std::size_t f = 0; f < all.size(); ++f) {
    if (all[f] <= 0) continue;
    sigmas.modelled[f] = std::sqrt(sigmas.modelled[f]) / all[f];
    sigmas.elsewhere[f] /= all[f];
  }
  return sigmas;
}

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
    const auto p = static_cast<std::size_t>(host::cpu_phase(g, t));
    return sign * kTenthPercentile * own.sigma[p] + (sign > 0 ? own.slower[p] : 0.0);
  };
  const double gpu = kTenthPercentile * own.sigma[host::kCpuPhases];
  const double up = deviations.moved([&](std::size_t t) { return free(t, 1); }) + std::log1p(gpu);
  const double down = -deviations.moved([&](std::size_t t) { return free(t, -1); }) - std::log1p(-gpu);
  deviations.at_least("as it is", std::min(up, own_up), std::min(down, own_down),
                      "the step as it is, without the profiler, is not known better");
}

// Recorded steps that differ show what the model of one step does not hold.
void widen_to_recorded_steps(Deviations& deviations, Ns step, const Model& base) {
  const graph::StepSpread& all = base.graph.recorded_steps;
  const std::optional<host::LogSpread> spread = host::recorded_spread(base.graph, step);
  if (!spread) return;
  deviations.at_least(std::string(kRecordedStepsFamily), spread->up, spread->down,
                      fmt::format("the {} recorded steps took {:.4g} to {:.4g} ms (10th to 90th percentile)", all.steps,
                                  to_ms(all.low), to_ms(all.high)));
}

// "the GPU is not in the list": kernels that change are computed from figures of another.
std::string gpu_why(const Model& base) {
  return base.device.name.empty() ? "the GPU is unknown: " + base.device_guess
                                  : "the GPU is not in the list of devices: found " + base.device_guess;
}

}  // namespace

Band band_around(const Model& changed, ModelRuns& runs, Ns step, const Model& base, Ns today) {
  using graph::Origin;
  const graph::Graph& g = changed.graph;
  const Residuals& residuals = base.residuals ? *base.residuals : Residuals::built_in();
  Deviations deviations(g, runs, step);

  // The host: how far its time was off on measured steps, which were timed before the change. Where nobody timed this one, or its
  // time says nothing of the CPU, what the trace leaves open of it comes on top, but for the host's moment: that is in both.
  const double host = residuals.sigma(kHostFamily);
  const double moment = base.host.uncertainty.run_to_run;
  std::array<double, host::kCpuPhases> cpu{};
  for (std::size_t p = 0; p < host::kCpuPhases; ++p) {
    const double open = base.base.sigma[p];
    cpu[p] = std::max(open, std::hypot(host, std::sqrt(std::max(0.0, open * open - moment * moment))));
  }
  deviations.add_uneven(std::string(kHostFamily), *std::max_element(cpu.begin(), cpu.end()),
                        "CPU time differs between runs, and from what the trace shows under the profiler",
                        [&](std::size_t t, bool up) {
                          if (graph::is_gpu(g.kind[t])) return 0.0;
                          const auto p = static_cast<std::size_t>(host::cpu_phase(g, t));
                          return cpu[p] + (up ? base.base.slower[p] / kTenthPercentile : 0.0);
                        });
  const double gpu = base.base.sigma[host::kCpuPhases];
  deviations.add("gpu", gpu, "GPU clocks differ between runs",
                 [&](std::size_t t) { return graph::is_gpu(g.kind[t]) ? gpu : 0.0; });

  const auto communicates = [&](std::size_t t) { return g.kind[t] == graph::TaskKind::kCollective; };
  if (changed.interference && changed.interference->communication_sigma > 0) {
    const double sigma = changed.interference->communication_sigma;
    deviations.add("communication", sigma, "collectives are modelled",
                   [&](std::size_t t) { return communicates(t) ? sigma : 0.0; });
  }

  double all = 0;
  double scaled = 0;
  std::array<double, kErrorFamilies.size()> modelled = {};
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t]) || (changed.interference && communicates(t))) continue;
    const auto time = static_cast<double>(g.cost[t]);
    all += time;
    if (g.origin[t] == Origin::kScaled) scaled += time;
    if (g.origin[t] > Origin::kScaled) modelled[error_family(family_of(changed, t))] += time;
  }
  const KernelSigmas kernels = kernel_sigmas(changed);
  if (scaled > kLeastShare * all) {
    const double sigma = std::max(residuals.sigma(kScaledFamily), kernels.scaled);
    deviations.add(std::string(kScaledFamily), sigma, "measured kernels are scaled to their new sizes",
                   [&](std::size_t t) {
                     const bool mine = graph::is_gpu(g.kind[t]) && !(changed.interference && communicates(t));
                     return mine && g.origin[t] == Origin::kScaled ? sigma : 0.0;
                   });
  }
  for (std::size_t f = 0; f < kErrorFamilies.size(); ++f) {
    if (modelled[f] <= kLeastShare * all) continue;
    const double measured = residuals.sigma(kErrorFamilies[f]);
    const double sigma = std::hypot(std::max(measured, kernels.modelled[f]), kernels.elsewhere[f]);
    std::string why = fmt::format("{} kernels are modelled", kErrorFamilies[f]);
    if (kernels.modelled[f] > measured) why += ", with few measured kernels of such shapes";
    if (kernels.elsewhere[f] > 0)
      why += fmt::format(", from those of a {}", hardware::measured_device(changed.device).name);
    deviations.add(std::string(kErrorFamilies[f]), sigma, std::move(why), [&](std::size_t t) {
      const bool mine =
          graph::is_gpu(g.kind[t]) && !(changed.interference && communicates(t)) && g.origin[t] > Origin::kScaled;
      return mine && error_family(family_of(changed, t)) == f ? sigma : 0.0;
    });
  }
  // On another GPU: one error in its bandwidth moves every kernel that stays the same, one in its products all of them.
  std::array<double, kErrorFamilies.size()> moved = {};
  std::array<double, kErrorFamilies.size()> spread = {};
  const auto moved_sigma = [&](std::size_t t) {
    return graph::is_gpu(g.kind[t]) ? changed.moved_sigma[static_cast<std::size_t>(family_of(changed, t))] : 0.0;
  };
  for (std::size_t t = 0; t < g.size(); ++t) {
    const double sigma = moved_sigma(t);
    if (sigma <= 0) continue;
    const std::size_t f = error_family(family_of(changed, t));
    moved[f] += static_cast<double>(g.cost[t]);
    spread[f] += sigma * static_cast<double>(g.cost[t]);
  }
  for (std::size_t f = 0; f < kErrorFamilies.size(); ++f) {
    if (moved[f] <= kLeastShare * all) continue;
    deviations.add("moved " + std::string(kErrorFamilies[f]), spread[f] / moved[f],
                   fmt::format("{} kernels are moved to {}", kErrorFamilies[f], changed.device.name),
                   [&](std::size_t t) {
                     return graph::is_gpu(g.kind[t]) && error_family(family_of(changed, t)) == f ? moved_sigma(t) : 0.0;
                   });
  }
  // Waits that nothing explains were kept as they were. Should they follow the change as the rest of the step does, it would
  // come out further away.
  if (base.frozen_share() > 0) {
    const auto before = static_cast<double>(today);
    const double frozen =
        std::min(base.frozen_share() * before, kLargestDeviation * std::min(before, static_cast<double>(step)));
    const double followed = before * (static_cast<double>(step) - frozen) / (before - frozen);
    deviations.add_whole(
        "unexplained waits", std::abs(std::log(followed / static_cast<double>(step))),
        fmt::format("{:.1f} % of the step are waits that nothing explains", 100 * base.frozen_share()));
  }
  // How a captured step starts and how closely its kernels follow each other, no launch of the trace shows.
  const bool captured = std::any_of(changed.applied.begin(), changed.applied.end(),
                                    [](const Model::Applied& a) { return a.changes == Changes::kLaunches; });
  if (captured && residuals.models(kLaunchFamily) > 0) {
    deviations.add_whole(std::string(kLaunchFamily), residuals.sigma(kLaunchFamily),
                         "no launch of the trace shows how a captured step starts");
  }
  // Changes are fitted one by one; each that is stacked on others meets kernels and a host the fit has not seen.
  if (changed.applied.size() > base.applied.size() + 1) {
    const auto more = static_cast<double>(changed.applied.size() - base.applied.size() - 1);
    deviations.add_whole(std::string(kCombinedFamily), residuals.sigma(kCombinedFamily) * std::sqrt(more),
                         "several changes affect each other");
  }
  // What the model says of a GPU that no file describes is off by as much as boards of its architecture differ.
  if (!base.device_guess.empty()) {
    const double sigma = base.device.guessed_sigma > 0 ? base.device.guessed_sigma : Residuals::unmeasured();
    deviations.add(std::string(kUnknownGpuFamily), sigma, gpu_why(base), [&](std::size_t t) {
      return graph::is_gpu(g.kind[t]) && g.origin[t] >= Origin::kScaled ? sigma : 0.0;
    });
  }
  if (!changed.validated) {
    deviations.add_whole("not validated", Residuals::unmeasured(), "no measured step checked this change");
  }
  if (base.graph.recorded_steps.steps == 1 && !base.base.calibrated) {
    deviations.add_whole(std::string(kOneStepFamily), host::one_step_sigma(),
                         "one step was recorded: nothing shows how much steps differ");
  }
  if (const graph::Startup& startup = base.graph.notes.startup; startup.time() > 0) {
    deviations.add_whole(std::string(kStartupFamily),
                         std::log1p(static_cast<double>(startup.unsure) / static_cast<double>(today)),
                         "start-up work was taken out of the step, and more of it may be start-up");
  }
  widen_to_learnt(deviations, changed, base);
  widen_to_baseline(deviations, g, base);
  widen_to_recorded_steps(deviations, step, base);
  return deviations.finish();
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
