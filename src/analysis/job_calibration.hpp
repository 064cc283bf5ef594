#pragma once
// A job under other costs: all ranks' CPUs slower or faster, and calibrated to a measured step of the job.

#include <functional>
#include <memory>
#include <vector>

#include "host/calibration.hpp"
#include "whatif/job/job_models.hpp"
#include "whatif/model/simulate_model.hpp"

namespace foretrace::analysis {

using Ranks = std::vector<std::shared_ptr<const whatif::Model>>;

/// The step of a joined job with every cost multiplied by exp(log): of its rank's slot and a phase of the CPU, or Calibration::kGpu.
class MovedJob {
 public:
  explicit MovedJob(const whatif::Model& job);
  [[nodiscard]] Ns step(const std::function<double(std::size_t slot, std::size_t part)>& log);

 private:
  const whatif::Model& job_;
  std::vector<std::uint32_t> main_lane_;  // by slot
  whatif::ModelRuns runs_;
};

/// The ranks, their CPU and GPU times moved as little as possible for the job to take `measured`.
Ranks calibrated(const Ranks& ranks, MovedJob& job, Ns measured);

}  // namespace foretrace::analysis
