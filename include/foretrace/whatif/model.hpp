#pragma once
// Model: everything a what-if may look at and change about one step. The graph is the step without the profiler; works
// describe its GPU tasks; facts are what the trace says about the training job. analysis/baseline.hpp makes it.

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/host/unprofiled.hpp"
#include "foretrace/memory/memory.hpp"
#include "foretrace/trace/trace.hpp"
#include "foretrace/work/work.hpp"

namespace foretrace::whatif {

/// What CPU work around a launch costs in each phase, from this trace without the profiler: what an inserted kernel costs.
struct LaunchCosts {
  std::array<Ns, host::kCpuPhases> cpu_per_launch = {};  ///< operation overhead and call together
};

/// Communication that overlaps computation: how a collective's thread blocks and memory traffic slow kernels, and vice
/// versa (docs/internals/scale.md gives the form and the fit).
struct Interference {
  int sms = 0;                     ///< that a collective occupies
  double kernels = 0;              ///< share of its speed that a kernel loses during a collective, beyond those SMs
  double collective = 0;           ///< share of its speed that a collective loses while kernels run
  double communication_sigma = 0;  ///< spread of log(real / modelled) of the collectives
};

/// The speed at which work of this phase runs on the CPU: the update and backward have their own.
constexpr host::CpuPhase cpu_phase(graph::Phase phase) {
  if (phase == graph::Phase::kOptimizer) return host::CpuPhase::kOptimizer;
  return phase == graph::Phase::kBackward ? host::CpuPhase::kBackward : host::CpuPhase::kForward;
}

class GraphFacts;                   // src/whatif/model/graph_facts.hpp
struct JobModels;                   // src/whatif/job/job_models.hpp
class OpChains;                     // src/whatif/model/op_chains.hpp
enum class Changes : std::uint8_t;  // whatif.hpp

/// How far predictions were from measured steps, by family of errors and model: the data behind bands. Errors inside a
/// family move together, so one model counts once however many rows it has.
///
///   Residuals::built_in("H200-SXM").sigma("gemm");     // of log time
///
/// Built-in tables are written by tools/fit_bands.py from steps measured on one device; the same tool makes one from your own.
class Residuals {
 public:
  /// One line: family, model, log(measured / predicted).
  struct Row {
    std::string family;
    std::string model;
    double residual = 0;
  };

  /// Lines "family,model,residual"; '#' begins a comment.
  static Result<Residuals> parse(std::string_view csv, std::string_view file);
  /// Those of the device on which a step was recorded, by its name; the reference device's where no steps were measured on it.
  static const Residuals& built_in(std::string_view device);

  /// The standard deviation for which the band from the 10th to the 90th percentile holds four of five of a family's residuals; each
  /// model counts once. Multiplied by the factor of Student's t where few models were measured. A family of kernels that was not
  /// measured gets the value of all kernels together; without any, the root mean square of the reference device's families.
  [[nodiscard]] double sigma(std::string_view family) const;
  /// Models with rows of this family.
  [[nodiscard]] std::size_t models(std::string_view family) const;
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }

  /// The default for a family that was not measured on a device: the root mean square of its built-in table's families.
  static double unmeasured(std::string_view device);

 private:
  std::vector<Row> rows_;
};

/// Families that are not kinds of kernels.
inline constexpr std::string_view kHostFamily = "host";      ///< CPU time between runs and after a change
inline constexpr std::string_view kScaledFamily = "scaled";  ///< measured kernels times a factor
/// Interaction of two changes beyond the effect of each on kernels and host; of the whole step, for every change after the
/// first.
inline constexpr std::string_view kCombinedFamily = "combined";

struct Model {
  const trace::Trace* trace = nullptr;
  graph::Graph graph;
  std::shared_ptr<const GraphFacts>
      facts;  ///< about the graph, shared by all copies of the model; replaced together with
              ///< the graph
  std::shared_ptr<const OpChains> chains;  ///< of the trace's operations, shared by all copies of the model
  work::Works works;                       ///< of the graph's tasks; grows as what-ifs change them
  hardware::Device device;
  const trace::Latencies* latencies = &trace::default_latencies();  ///< of `device`
  std::string device_guess;  ///< how the device was found where its name is not in the list; empty: by its name
  LaunchCosts launches;
  host::HostCosts host;                 ///< of the step's host
  host::Unprofiled base;                ///< how the profiler was undone, and what stays uncertain
  std::int64_t parameter_elements = 0;  ///< trained parameters, from the optimizer's kernels or memory; 0 when unknown
  std::int64_t parameter_tensors = 0;
  std::int64_t parameter_element_bytes = 4;  ///< of parameters and gradients: 2 where the weights are in half precision
  std::string optimizer;                     ///< "Adam", "SGD", …; empty when none was seen
  std::optional<memory::Curve> memory;       ///< of the step, where the trace has memory events; what-ifs change it too
  std::shared_ptr<const Residuals> residuals;  ///< behind the bands; null: the built-in ones of `device`
  Ns frozen = 0;  ///< of the step as replayed: waits that nothing explains and no change shortens
  Ns replayed = 0;
  double samples = 1;       ///< in a step, as a multiple of the traced step's; `batch` changes it
  double pass_samples = 1;  ///< in one forward pass, the same way; accumulation changes it too
  /// Of log time, by family: the uncertainty of kernel times moved to another GPU. 0 on the GPU of the trace.
  std::array<double, work::kFamilies> moved_sigma = {};
  double driver_sigma = 0;  ///< of log time: launch calls under another maker's driver than the trace's
  std::optional<Interference> interference;  ///< set by what-ifs that add communication
  int replicas = 1;                          ///< of the model, each with a batch of its own, as set by them; and
  int workers = 1;                           ///< GPUs of all replicas together
  std::size_t buckets = 0;                   ///< in how many buckets gradients are reduced
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
  bool transfers_only = false;  ///< collectives cost their transfer; waiting for other ranks is no part of it
  /// Of a job: the model of each rank. This model then is all of them joined, and changes are made on each rank's own. Its trace,
  /// works' operations and facts are those of the first rank.
  std::shared_ptr<const JobModels> job;
};

/// For every event of the model's trace: whether it is an operation whose name, or that of an enclosing one, matches the glob.
std::vector<bool> matching_operations(const Model& model, const std::string& glob);

}  // namespace foretrace::whatif
