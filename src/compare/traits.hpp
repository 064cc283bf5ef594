#pragma once
// How a step is run, derived from its work: precision, optimizer, number of passes, number of workers. A difference in one of
// these is a cause that can be named.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "foretrace/compare/compare.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/work/work.hpp"

namespace foretrace::compare {

struct GpuItem;
struct Profile;

struct Traits {
  work::Dtype precision = work::Dtype::kOther;  ///< of most of the products' time; kOther: unknown
  double half_share = 0, tf32_share = 0;        ///< of the products' time
  double fp8_ns = 0;                            ///< GPU time of scaled products
  enum class Update : std::uint8_t { kUnknown, kLoop, kForeach, kFused };
  Update update = Update::kUnknown;
  std::string optimizer;      ///< "Adam"
  double attention_ns = 0;    ///< fused attention
  double channels_last = -1;  ///< share of the convolutions' time; -1: unknown
  double recomputed = 0;      ///< GPU tasks of forward that backward runs again, of those forward runs
  double graph_share = 0;     ///< of GPU tasks launched by CUDA graphs
  double compiled_share = 0;  ///< of GPU time in kernels a compiler wrote
  double host_copy_bytes = 0;
  double loss_scaling = 0;                    ///< operations of a gradient scaler
  std::map<std::string, double> collectives;  ///< kind -> calls
  std::map<std::string, std::string> collective_types;
  double collective_bytes = 0;
  std::int64_t world = 1;
  std::string loader;  ///< "in the main process", "in worker processes"; empty: none seen
  bool python_frames = false, layer_ranges = false, shapes = false;
  /// Operations of the forward pass that have sizes, by layer and name: calls and elements of one call.
  struct Size {
    double calls = 0, elements = 0;
  };
  std::map<std::string, Size> sizes;
};

Traits traits_of(const trace::Trace& trace, const trace::Step& step, const graph::Graph& graph,
                 const work::Works& works);

/// What differs between two ways to run a step, what changes most things first.
std::vector<Cause> differences(const Profile& before, const Profile& after);

}  // namespace foretrace::compare
