#include "whatif/dataflow/dataflows.hpp"

#include <algorithm>

#include "whatif/model/graph_facts.hpp"

namespace foretrace::whatif {

std::shared_ptr<const Dataflow> Dataflows::of(const Model& model) {
  constexpr std::size_t kMostWindows = 8;  // each as large as the step's list of operations
  const FlowStart start = flow_start(model);
  const std::lock_guard lock(mutex_);
  if (trace_ != model.trace) windows_.clear();
  trace_ = model.trace;
  auto window = std::find_if(windows_.begin(), windows_.end(), [&](const Window& w) { return w.at == start.window; });
  if (window == windows_.end()) {
    if (windows_.size() >= kMostWindows) windows_.pop_back();
    windows_.push_front({start.window, flow_ops(*trace_, start.window), {}});
    window = windows_.begin();
  }
  std::vector<bool> computing;
  for (const std::uint32_t op : window->ops.ops) computing.push_back(start.computing[op]);
  std::erase_if(window->flows, [](const Known& k) { return k.flow.expired(); });
  for (const Known& known : window->flows) {
    if (known.computing != computing) continue;
    if (std::shared_ptr<const Dataflow> flow = known.flow.lock()) return flow;
  }
  auto flow = std::make_shared<const Dataflow>(flow_of(*trace_, start, window->ops));
  window->flows.push_back({std::move(computing), flow});
  return flow;
}

GraphFacts::GraphFacts() : flows_(std::make_shared<Dataflows>()) {}

GraphFacts::GraphFacts(const std::shared_ptr<const GraphFacts>& before)
    : flows_(before ? before->flows_ : std::make_shared<Dataflows>()) {}

std::shared_ptr<const Dataflow> GraphFacts::flow(const Model& model) const {
  std::call_once(flow_found_, [&] { flow_ = flows_->of(model); });
  return flow_;
}

std::shared_ptr<const Dataflow> shared_flow(const Model& model) {
  return model.facts ? model.facts->flow(model) : std::make_shared<const Dataflow>(forward_flow(model));
}

}  // namespace foretrace::whatif
