#pragma once
// One place where a model becomes times: its graph, with whatever runs beside what slowed down.

#include <optional>
#include <span>

#include "foretrace/whatif/model.hpp"
#include "simulate/steady_runs.hpp"

namespace foretrace::whatif {

/// A lane of this name holds two marks between which the step is measured: for changes whose work reaches into the next step.
inline constexpr std::string_view kPeriodLane = "period";

/// A model simulated under several costs. It must not change meanwhile, and must outlive this.
class ModelRuns {
 public:
  explicit ModelRuns(const Model& model);
  ModelRuns(const ModelRuns&) = delete;
  ModelRuns& operator=(const ModelRuns&) = delete;

  /// `cost` instead of the graph's own, where given. What comes back holds until the next run.
  simulate::SteadyRuns::Run run(std::span<const Ns> cost = {});
  /// Where in such a run the step lies that counts, as a lane of marks says; nothing: the graph is one step.
  struct Period {
    Ns begin, end;
  };
  static std::optional<Period> period(const simulate::SteadyRuns::Run& run);

 private:
  std::optional<simulate::Contention> contention_;
  simulate::SteadyRuns runs_;
};

}  // namespace foretrace::whatif
