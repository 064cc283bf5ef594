#pragma once
// Model: everything a what-if may look at and change about one step. The graph is the step without the profiler; works
// describe its GPU tasks; facts are what the trace says about the training job. analysis/baseline.hpp makes it.

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/graph/build.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/hardware/cost.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/host/unprofiled.hpp"
#include "foretrace/memory/memory.hpp"
#include "foretrace/trace/steps.hpp"
#include "foretrace/whatif/contract.hpp"
#include "foretrace/whatif/op_chains.hpp"
#include "foretrace/whatif/residuals.hpp"
#include "foretrace/work/works.hpp"

namespace foretrace::whatif {

/// What CPU work around a launch costs in each phase, from this trace without the profiler: what an inserted kernel costs.
struct LaunchCosts {
  std::array<Ns, host::kCpuPhases> cpu_per_launch = {};  ///< operation overhead and call together
};

/// Communication beside computation: how a collective's thread blocks and memory traffic slow kernels, and the other way
/// round (docs/internals/scale.md gives the form and the fit).
struct Interference {
  double sm_share = 0;             ///< of the GPU's SMs a collective occupies
  double kernels = 0;              ///< speed a kernel loses beside a collective, beyond those SMs
  double collective = 0;           ///< speed a collective loses beside kernels
  double communication_sigma = 0;  ///< spread of log(real / modelled) of the collectives
};

/// The speed at which work of this phase runs on the CPU: the update and backward have their own.
constexpr host::CpuPhase cpu_phase(graph::Phase phase) {
  if (phase == graph::Phase::kOptimizer) return host::CpuPhase::kOptimizer;
  return phase == graph::Phase::kBackward ? host::CpuPhase::kBackward : host::CpuPhase::kForward;
}

class GraphFacts;  // src/whatif/model/graph_facts.hpp

struct Model {
  const trace::Trace* trace = nullptr;
  graph::Graph graph;
  std::shared_ptr<const GraphFacts>
      facts;                               ///< about the graph, shared by all copies of the model; whoever replaces the
                                           ///< graph replaces them
  std::shared_ptr<const OpChains> chains;  ///< of the trace's operations, shared by all copies of the model
  work::Works works;                       ///< of the graph's tasks; grows as what-ifs change them
  hardware::Device device;
  LaunchCosts launches;
  host::HostCosts host;                 ///< of the step's host
  host::Unprofiled base;                ///< how the profiler was undone, and what stays uncertain
  std::int64_t parameter_elements = 0;  ///< trained parameters, from the optimizer's kernels or memory; 0 when unknown
  std::int64_t parameter_tensors = 0;
  std::string optimizer;                ///< "Adam", "SGD", …; empty when none was seen
  std::optional<memory::Curve> memory;  ///< of the step, where the trace has memory events; what-ifs change it too
  std::shared_ptr<const Residuals> residuals;  ///< behind the bands; null: the built-in ones
  Ns frozen = 0;  ///< of the step as replayed: waits that nothing explains and no change shortens
  Ns replayed = 0;
  double samples = 1;       ///< in a step, as a multiple of the traced step's; `batch` changes it
  double pass_samples = 1;  ///< in one forward pass, the same way; accumulation changes it too
  /// Of log time, by family: what carrying kernels over to another GPU left uncertain. 0 on the GPU of the trace.
  std::array<double, work::kFamilies> moved_sigma = {};
  std::optional<Interference> interference;  ///< set by what-ifs that add communication
  int workers = 1;                           ///< as set by them, and
  std::size_t buckets = 0;                   ///< in how many buckets they reduce gradients
  bool validated = true;  ///< whether everything applied so far has truth rows (docs/internals/accuracy.md)
  /// What takes the CPU `us` at speed 1 takes this step's CPU.
  [[nodiscard]] Ns cpu_time(double us, host::CpuPhase phase) const {
    return static_cast<Ns>(us * 1e3 * base.speed[static_cast<std::size_t>(phase)]);
  }
  [[nodiscard]] Ns cpu_time(double us, graph::Phase phase) const { return cpu_time(us, cpu_phase(phase)); }
  /// What launching one more kernel takes this step's CPU.
  [[nodiscard]] Ns launch_time(graph::Phase phase) const {
    return launches.cpu_per_launch[static_cast<std::size_t>(cpu_phase(phase))];
  }
  [[nodiscard]] double frozen_share() const {
    return replayed > 0 ? static_cast<double>(frozen) / static_cast<double>(replayed) : 0;
  }
  /// Set by what-ifs, read by later ones and by the report.
  struct Applied {
    std::string whatif;
    Changes changes;
  };
  std::vector<Applied> applied;
  std::vector<std::string> not_modelled;
};

}  // namespace foretrace::whatif
