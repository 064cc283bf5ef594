#include "foretrace/analysis/gpus.hpp"
#include "hardware/collective.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::analysis {

ScaleReport scale_report(const Baseline& baseline, const whatif::Parallelism& how,
                         const std::shared_ptr<const hardware::CollectiveModel>& network, int gpus_per_node,
                         const std::vector<int>& workers, const std::vector<whatif::Use>& changes) {
  ScaleReport r;
  r.file = baseline.figures.file;
  r.step_name = baseline.figures.step_name;
  r.device = baseline.figures.device;
  r.traced = baseline.figures.traced;
  r.unprofiled = baseline.figures.unprofiled;
  r.steadiness = baseline.figures.steadiness;
  r.measured = baseline.figures.measured;
  r.scheme = std::string(to_string(how.scheme));
  r.compression = std::string(to_string(how.compression));
  r.network = network->name();
  r.gpus_per_node = gpus_per_node;
  r.servers = how.servers;
  if (const auto gradients = whatif::find_gradients(baseline.model)) r.gradient_bytes = gradients->bytes();
  for (const whatif::Use& use : changes) r.whatifs.push_back(use.text);
  if (!changes.empty()) {
    const whatif::Prediction one = predict(baseline, changes, whatif::Detail::kStepOnly);
    if (one.declined.empty()) r.change_speedup = one.speedup;
  }
  for (const int n : workers) {
    // One worker is the step as it is, with the changes, unless it is a slow one.
    std::vector<whatif::Use> uses = changes;
    if (n > 1 || how.slow_worker != 1) uses.push_back(whatif::parallel_use(how, network, n, gpus_per_node));
    whatif::Prediction p = predict(baseline, uses);
    if (p.declined.empty()) {
      p.workers = n;
      p.graph = {};  // nobody looks at it
      r.predictions.push_back(std::move(p));
    } else {
      r.declined.emplace_back(n, p.declined);
    }
  }
  return r;
}

}  // namespace foretrace::analysis
