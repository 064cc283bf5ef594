#pragma once
// Facts about a model's graph, computed on first use. Models whose graph is the same one share it: the copy a
// what-if works on has the facts of the model it was made from, and gets new ones with its changed graph (predict.cpp).

#include <memory>
#include <mutex>

#include "foretrace/whatif/model.hpp"
#include "graph/step_kind.hpp"

namespace foretrace::whatif {

struct Dataflow;
struct StepFacts;
class Dataflows;  // catalogue/dataflows.hpp

/// May be asked by several threads.
class GraphFacts {
 public:
  GraphFacts();
  /// Of a graph made from the one that `before` is about: what hangs on the trace alone is found out once for both.
  explicit GraphFacts(const std::shared_ptr<const GraphFacts>& before);

  /// forward_flow of the model, which has the graph these facts are about.
  [[nodiscard]] std::shared_ptr<const Dataflow> flow(const Model& model) const;
  /// What the model's step already has (step_facts.hpp).
  [[nodiscard]] std::shared_ptr<const StepFacts> step(const Model& model) const;
  /// What the step does, which no change alters.
  [[nodiscard]] graph::StepNature nature(const Model& model) const;

 private:
  struct Nature {
    std::once_flag found;
    graph::StepNature is;
  };
  std::shared_ptr<Dataflows> flows_;  ///< of all graphs made from one
  std::shared_ptr<Nature> nature_;    ///< the same
  mutable std::once_flag flow_found_;
  mutable std::shared_ptr<const Dataflow> flow_;
  mutable std::once_flag step_found_;
  mutable std::shared_ptr<const StepFacts> step_;
};

}  // namespace foretrace::whatif
