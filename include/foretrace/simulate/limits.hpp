#pragma once
// Whether a graph can move. A replay keeps what no rule explains as a distance, so that it meets the trace even where a
// queue was swallowed by one such distance; then it is exact and inert. Three simulations with costs at zero tell:
//
//   frozen     nothing costs anything: what is left is distances. A few percent are gaps and latencies, more are waits
//              that nobody explained and that no change will shorten
//   cpu_free   the CPU costs nothing: the step must come down to the GPU's own critical path
//   gpu_free   the GPU and the network cost nothing: the step must come down to the CPU's work
//
// All of them are the distance between the ends of the last two of several copies in a row.

#include <cstdint>
#include <vector>

#include "foretrace/base/time.hpp"
#include "foretrace/graph/graph.hpp"

namespace foretrace::simulate {

struct Limits {
  Ns step = 0;  ///< as replayed
  Ns frozen = 0;
  Ns cpu_free = 0;
  /// GPU tasks and the gaps between them (20 us at most each), with nothing from the CPU but the order it gives and the
  /// hand-overs between its threads, which belong to neither.
  Ns gpu_path = 0;
  Ns gpu_free = 0;
  /// CPU tasks and the hand-overs between threads. From the GPU only the gaps (20 us at most each): a CUDA graph of a thousand
  /// nodes takes 0.7 ms when none of them costs anything, and one call launches it.
  Ns cpu_work = 0;

  [[nodiscard]] double frozen_pct() const { return share(frozen); }
  /// What the limit exceeds the path by, in percent of the path; of the step where the path is less than a fifth of it: a
  /// resource that hardly takes part is known no better than that.
  [[nodiscard]] double cpu_free_off_pct() const { return off(cpu_free, gpu_path); }
  [[nodiscard]] double gpu_free_off_pct() const { return off(gpu_free, cpu_work); }

 private:
  [[nodiscard]] double share(Ns part) const {
    return step > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(step) : 0;
  }
  [[nodiscard]] double off(Ns limit, Ns path) const {
    const Ns whole = path > step / 5 ? path : step / 5;
    return whole > 0 ? 100.0 * static_cast<double>(limit - path) / static_cast<double>(whole) : 0;
  }
};

/// Only the first of them: the step with every cost at zero.
Ns frozen_time(const graph::Graph& graph);

/// A distance of more than 50 us that no change shortens.
struct LongLag {
  std::uint32_t from, to;  ///< tasks; `from` is the lane predecessor where the kind is kLane
  graph::DependencyKind kind;
  Ns lag;
};
/// All of them, longest first. Hand-overs between threads and threads of their own pace have their name and are left out.
std::vector<LongLag> long_lags(const graph::Graph& graph);

/// Of a graph whose unchanged step is `step`. The graph must have passed graph::verify.
Limits limits(const graph::Graph& graph, Ns step);

}  // namespace foretrace::simulate
