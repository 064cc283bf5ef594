#pragma once
// scale: the same step on N workers.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/whatif/parallel.hpp"

namespace foretrace::analysis {

struct ScaleReport {
  std::string file, step_name, device;
  std::string scheme, network, compression;
  Ns traced = 0, unprofiled = 0;
  std::optional<Ns> measured;
  std::int64_t gradient_bytes = 0;
  int gpus_per_node = 1;
  int servers = 0;
  std::vector<std::string> whatifs;  ///< changes every worker makes
  double change_speedup = 1;         ///< of one worker with them
  std::vector<whatif::Prediction> predictions;
  std::vector<std::pair<int, std::string>> declined;  ///< workers, reason
  /// One worker's step, with the same changes, over this one.
  [[nodiscard]] double efficiency(const whatif::Prediction& p) const { return p.speedup / change_speedup; }
};

/// One prediction per worker count. `network`: what collectives cost there; `changes`: made by every worker.
ScaleReport scale_report(const analysis::Baseline& baseline, const whatif::Parallelism& how,
                         const std::shared_ptr<const hardware::CollectiveModel>& network, int gpus_per_node,
                         const std::vector<int>& workers, const std::vector<whatif::Use>& changes = {});

}  // namespace foretrace::analysis
