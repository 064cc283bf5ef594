#include "whatif/dataflow/dataflows.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "whatif/model/graph_facts.hpp"

namespace foretrace::whatif {

using trace::EventKind;

namespace {

constexpr std::string_view kEvaluate = "autograd::engine::evaluate_function: ";

class OpFinder {
 public:
  OpFinder(const trace::Trace& trace, const FlowWindow& window) : t_(trace), window_(window) {}

  FlowOps run() {
    collect();
    std::sort(found_.nodes.begin(), found_.nodes.end(), [](const Dataflow::Node& a, const Dataflow::Node& b) {
      return a.lane.value != b.lane.value ? a.lane.value < b.lane.value : a.begin < b.begin;
    });
    find_own_work();
    std::erase_if(found_.ops, [&](std::uint32_t e) {
      const Ns at = t_.events.start[e];
      if (node_at(window_.lane, at) != nullptr) return true;
      return std::any_of(update_.begin(), update_.end(), [&](const auto& u) { return at >= u.first && at < u.second; });
    });
    std::sort(found_.ops.begin(), found_.ops.end(), [&](std::uint32_t a, std::uint32_t b) {
      if (t_.events.start[a] != t_.events.start[b]) return t_.events.start[a] < t_.events.start[b];
      return t_.events.duration[a] > t_.events.duration[b];
    });
    return std::move(found_);
  }

 private:
  void collect() {
    for (std::uint32_t e = 0; e < t_.size(); ++e) {
      if (t_.events.ph[e] != 'X' || t_.events.start[e] < window_.from || t_.events.start[e] > window_.to) continue;
      const EventKind kind = t_.kind(e);
      const std::string_view name = t_.name(e);
      if (kind == EventKind::kAnnotation && t_.events.lane[e] == window_.lane && name.starts_with("Optimizer.")) {
        update_.emplace_back(t_.events.start[e], t_.end(e));
      }
      if (kind != EventKind::kOp) continue;
      const trace::OpIds* ids = t_.op(e);
      if (name.starts_with(kEvaluate)) {
        const std::int64_t sequence = ids != nullptr ? ids->sequence_number : trace::kAbsent;
        found_.nodes.push_back({t_.events.start[e], t_.end(e), t_.events.lane[e], sequence,
                                name.substr(kEvaluate.size()), t_.events.start[e], t_.events.start[e]});
      } else if (t_.events.lane[e] == window_.lane) {
        found_.ops.push_back(e);
      }
      if (contains(name, "Backward") && !name.starts_with(kEvaluate)) own_.push_back(e);
    }
  }

  // The function that gives an autograd node its name, within the node.
  void find_own_work() {
    for (const std::uint32_t e : own_) {
      if (Dataflow::Node* node = node_at(t_.events.lane[e], t_.events.start[e]);
          node != nullptr && node->work_begin == node->work_end && contains(t_.name(e), node->name)) {
        node->work_begin = t_.events.start[e];
        node->work_end = t_.end(e);
      }
    }
  }

  Dataflow::Node* node_at(LaneId lane, Ns at) {
    auto it = std::upper_bound(found_.nodes.begin(), found_.nodes.end(), std::pair(lane.value, at),
                               [](const auto& key, const Dataflow::Node& n) {
                                 return key.first != n.lane.value ? key.first < n.lane.value : key.second < n.begin;
                               });
    if (it == found_.nodes.begin()) return nullptr;
    --it;
    return it->lane == lane && at >= it->begin && at < it->end ? &*it : nullptr;
  }

  const trace::Trace& t_;
  const FlowWindow& window_;
  FlowOps found_;
  std::vector<std::pair<Ns, Ns>> update_;  // spans of the optimizer
  std::vector<std::uint32_t> own_;         // functions of autograd nodes
};

}  // namespace

FlowStart flow_start(const Model& model) {
  const trace::Trace& t = *model.trace;
  const Graph& g = model.graph;
  FlowStart start{{g.lanes[g.main_lane].trace_lane, INT64_MAX, INT64_MIN}, std::vector<bool>(t.size(), false)};
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    if (graph::is_gpu(g.kind[i])) {
      if (g.op[i].valid() && g.op[i].index() < t.size()) start.computing[g.op[i].index()] = true;
    } else if (g.event[i].valid()) {
      start.window.from = std::min(start.window.from, t.events.start[g.event[i].index()]);
      start.window.to = std::max(start.window.to, t.end(g.event[i].index()));
    }
  }
  return start;
}

FlowOps flow_ops(const trace::Trace& trace, const FlowWindow& window) { return OpFinder(trace, window).run(); }

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

GraphFacts::GraphFacts() : flows_(std::make_shared<Dataflows>()), nature_(std::make_shared<Nature>()) {}

GraphFacts::GraphFacts(const std::shared_ptr<const GraphFacts>& before)
    : flows_(before ? before->flows_ : std::make_shared<Dataflows>()),
      nature_(before ? before->nature_ : std::make_shared<Nature>()) {}

std::shared_ptr<const Dataflow> GraphFacts::flow(const Model& model) const {
  std::call_once(flow_found_, [&] { flow_ = flows_->of(model); });
  return flow_;
}

std::shared_ptr<const Dataflow> shared_flow(const Model& model) {
  return model.facts ? model.facts->flow(model) : std::make_shared<const Dataflow>(forward_flow(model));
}

}  // namespace foretrace::whatif
