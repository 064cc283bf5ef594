#include "analysis/job_calibration.hpp"

#include <algorithm>
#include <cmath>

namespace foretrace::analysis {

using host::Calibration;
using whatif::Model;

namespace {

Ns scaled(Ns time, double log) { return std::llround(static_cast<double>(time) * std::exp(log)); }

void move(Model& model, const Calibration::Vector& theta, const Calibration::Matrix& covariance) {
  graph::Graph& g = model.graph;
  for (std::size_t t = 0; t < g.size(); ++t) {
    g.cost[t] = scaled(g.cost[t], theta[host::step_part(g, t)]);
  }
  for (std::size_t p = 0; p < host::kCpuPhases; ++p) {
    model.base.factors.phase[p] *= std::exp(theta[p]);
    model.base.speed[p] *= std::exp(theta[p]);
    model.base.slower[p] = 0;
    model.launches.cpu_per_launch[p] = scaled(model.launches.cpu_per_launch[p], theta[p]);
  }
  model.base.factors.gpu *= std::exp(theta[host::kGpuPart]);
  model.base.factors.loading *= std::exp(theta[host::kLoadingPart]);
  for (std::size_t i = 0; i < Calibration::kParameters; ++i)
    model.base.sigma[i] = std::sqrt(std::max(0.0, covariance[i][i]));
  model.base.calibrated = true;
  model.base.origin = "measured step";
}

}  // namespace

MovedJob::MovedJob(const Model& job) : job_(job), main_lane_(job.job->ranks.size(), kNone), runs_(job) {
  const std::vector<std::uint32_t>& slots = job.job->slot_of_lane;
  for (std::uint32_t lane = 0; lane < slots.size(); ++lane) {
    if (slots[lane] != kNone && main_lane_[slots[lane]] == kNone)
      main_lane_[slots[lane]] = lane + job.job->ranks[slots[lane]]->graph.main_lane;
  }
}

Ns MovedJob::step(const std::function<double(std::size_t slot, std::size_t part)>& log) {
  const graph::Graph& g = job_.graph;
  std::vector<Ns> cost(g.cost.begin(), g.cost.end());
  for (std::size_t t = 0; t < g.size(); ++t) {
    const std::uint32_t slot = job_.job->slot_of_lane[g.lane[t]];
    if (slot == kNone || cost[t] == 0) continue;
    const bool forward = g.lane[t] == main_lane_[slot];
    const auto phase = g.phase[t] == graph::Phase::kOptimizer ? host::CpuPhase::kOptimizer
                       : forward                              ? host::CpuPhase::kForward
                                                              : host::CpuPhase::kBackward;
    cost[t] = scaled(cost[t], log(slot, graph::is_gpu(g.kind[t]) ? host::kGpuPart : static_cast<std::size_t>(phase)));
  }
  return runs_.run(cost).timeline.step;
}

Ranks calibrated(const Ranks& ranks, MovedJob& job, Ns measured) {
  host::CpuPrior prior;
  prior.host = ranks.front()->host;
  Calibration calibration(
      [&](const Calibration::Vector& theta) {
        return static_cast<double>(job.step([&](std::size_t /*slot*/, std::size_t part) { return theta[part]; }));
      },
      host::prior_covariance(prior));
  const Calibration::Vector theta = calibration.solve(static_cast<double>(measured));
  Ranks out;
  for (const auto& rank : ranks) {
    Model model = *rank;
    move(model, theta, calibration.covariance());
    out.push_back(std::make_shared<const Model>(std::move(model)));
  }
  return out;
}

}  // namespace foretrace::analysis
