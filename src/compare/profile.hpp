#pragma once
// One recording as work: what its step does on the GPU and on the CPU, by the names both sides of a comparison share.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compare/traits.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/compare/compare.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/work/work.hpp"

namespace foretrace::compare {

/// GPU work of a step that is the same work: one kernel, for one operation on the same sizes in one layer and phase.
struct GpuItem {
  std::string kernel, op, layer, shape;
  graph::Phase phase = graph::Phase::kOther;
  work::Family family = work::Family::kOther;
  bool from_host = false;    ///< a copy between host and GPU
  bool overlaps = false;     ///< ran while another stream was busy, so its time depends on what ran there
  double ns = 0, count = 0;  ///< of one step
};
/// CPU work of a step: an operation's own time in one phase.
struct CpuItem {
  std::string op;
  graph::Phase phase = graph::Phase::kOther;
  double ns = 0, count = 0;
};

struct Profile {
  std::string file, step_name, device;
  std::optional<std::int64_t> rank;
  std::map<std::string, GpuItem> gpu;  ///< by everything that names it
  std::map<std::string, CpuItem> cpu;
  double gpu_ns = 0, cpu_ns = 0, launches = 0;
  std::vector<double> traced_ns;  ///< of every step
  std::vector<double> clean_ns;   ///< without the profiler: the recorder's steps
  std::optional<Ns> clean;        ///< the user's, else the recorder's
  bool measured_by_user = false;
  std::optional<Ns>
      estimated;  ///< without the profiler, estimated from the trace alone; missing where that is not possible
  std::shared_ptr<const graph::Graph> traced_graph, clean_graph;  ///< of the step shown; `clean_graph` may be missing
  [[nodiscard]] const graph::Graph& graph() const { return clean_graph ? *clean_graph : *traced_graph; }
  std::optional<std::int64_t> peak_bytes;
  std::uint64_t syncs = 0;
  simulate::Bottleneck bottleneck;  ///< without the profiler
  Traits traits;
};

/// The step asked for, else the median one; averages over the steps nearest to it.
Result<Profile> profile(const trace::Trace& trace, std::optional<std::int64_t> step,
                        const host::UserMeasurements& measurements);

}  // namespace foretrace::compare
