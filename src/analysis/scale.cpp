#include <algorithm>

#include "foretrace/analysis/gpus.hpp"
#include "hardware/collective.hpp"
#include "whatif/parallel/gradients.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::analysis {

namespace {

bool has_collectives(const graph::Graph& g) {
  return std::any_of(g.kind.begin(), g.kind.end(), [](graph::TaskKind k) { return k == graph::TaskKind::kCollective; });
}

// What one worker does by itself: N workers are compared with that, and their own collectives take the place of the trace's.
whatif::Model without_collectives(whatif::Model model) {
  for (std::size_t t = 0; t < model.graph.size(); ++t) {
    if (model.graph.kind[t] == graph::TaskKind::kCollective) model.graph.cost[t] = 0;
  }
  return model;
}

}  // namespace

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
  r.one_rank = baseline.figures.one_rank;
  r.scheme = std::string(to_string(how.scheme));
  r.compression = std::string(to_string(how.compression));
  r.network = network->name();
  r.gpus_per_node = gpus_per_node;
  r.servers = how.servers;
  if (const auto gradients = whatif::find_gradients(baseline.model)) r.gradient_bytes = gradients->bytes();
  for (const whatif::Use& use : changes) r.whatifs.push_back(use.text);
  const bool several = has_collectives(baseline.model.graph);
  if (!changes.empty() || several) {
    const whatif::Model alone = without_collectives(baseline.model);
    const whatif::Prediction one = whatif::predict(alone, changes, std::nullopt, whatif::Detail::kStepOnly);
    const whatif::Prediction now = whatif::predict(baseline.model, {}, std::nullopt, whatif::Detail::kStepOnly);
    if (one.declined.empty()) r.change_speedup = static_cast<double>(now.step) / static_cast<double>(one.step);
  }
  if (several) {
    r.without_collectives = whatif::predict(without_collectives(baseline.model), {}, std::nullopt).step;
  }
  for (const int n : workers) {
    // One worker is the step as it is, with the changes, unless it is a slow one.
    std::vector<whatif::Use> uses = changes;
    if (n > 1 || how.slow_worker != 1) uses.push_back(whatif::parallel_use(how, network, n, gpus_per_node));
    whatif::Prediction p = predict(baseline, uses);
    if (p.declined.empty()) {
      p.workers = n;
      p.graph = {};  // not read later
      r.predictions.push_back(std::move(p));
    } else {
      r.declined.emplace_back(n, p.declined);
    }
  }
  return r;
}

}  // namespace foretrace::analysis
