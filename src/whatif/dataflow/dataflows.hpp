#pragma once
// Caches the dataflows of the graphs that what-ifs derive from one step. A flow follows from the trace and from which operations of the
// forward pass still launch GPU work; most changes leave both as they are, so most graphs have the same one.

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "whatif/dataflow/dataflow.hpp"

namespace foretrace::whatif {

/// Of a graph: where in the trace its forward pass is looked for.
struct FlowWindow {
  LaneId lane;
  Ns from = 0, to = 0;

  friend bool operator==(const FlowWindow&, const FlowWindow&) = default;
};

/// Of a graph: by event, the operations that launch GPU work themselves.
struct FlowStart {
  FlowWindow window;
  std::vector<bool> computing;
};
FlowStart flow_start(const Model& model);

/// What is found in a window, whatever the operations there compute.
struct FlowOps {
  std::vector<std::uint32_t> ops;  ///< of the forward pass, outer ones first
  std::vector<Dataflow::Node> nodes;
};
FlowOps flow_ops(const trace::Trace& trace, const FlowWindow& window);

Dataflow flow_of(const trace::Trace& trace, const FlowStart& start, const FlowOps& ops);

/// May be asked by several threads.
class Dataflows {
 public:
  std::shared_ptr<const Dataflow> of(const Model& model);

 private:
  struct Known {
    std::vector<bool> computing;  ///< of the operations of the window, in their order
    std::weak_ptr<const Dataflow> flow;
  };
  struct Window {
    FlowWindow at;
    FlowOps ops;
    std::vector<Known> flows;
  };
  std::mutex mutex_;
  const trace::Trace* trace_ = nullptr;
  std::list<Window> windows_;
};

}  // namespace foretrace::whatif
