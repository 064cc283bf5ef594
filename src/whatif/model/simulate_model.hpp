#pragma once
// Simulates a model: its graph, with the mutual slowdown of concurrent work. Nothing else simulates models.

#include <optional>
#include <span>

#include "foretrace/whatif/model.hpp"
#include "simulate/steady_runs.hpp"

namespace foretrace::whatif {

/// The speed of a task while such a collective runs on its GPU, over its speed alone.
double speed_during_collective(const Model& model, std::uint32_t task, const Interference& collective);
/// The same of a kernel like it that takes `cost` and does `work`.
double speed_during_collective(const Model& model, std::uint32_t task, const Interference& collective, Ns cost,
                               const work::Work* work);

/// How kernels and collectives of a model slow each other down; nothing where no what-if added collectives.
std::optional<simulate::Contention> contention_of(const Model& model);

/// A model simulated under several costs. It must not change meanwhile, and must outlive this.
class ModelRuns {
 public:
  explicit ModelRuns(const Model& model);
  ModelRuns(const ModelRuns&) = delete;
  ModelRuns& operator=(const ModelRuns&) = delete;

  /// With `cost` in place of the graph's own, where given. The result is valid until the next run.
  simulate::SteadyRuns::Run run(std::span<const Ns> cost = {});
  /// The part of a run that counts as the step (graph::LaneRole::kPeriodMarks); nothing: the graph is one step.
  struct Period {
    Ns begin, end;
  };
  static std::optional<Period> period(const simulate::SteadyRuns::Run& run);

 private:
  std::optional<simulate::Contention> contention_;
  simulate::SteadyRuns runs_;
};

}  // namespace foretrace::whatif
