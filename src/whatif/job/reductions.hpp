#pragma once
// How a recorded data-parallel job reduces its gradients: its all-reduces, and the time of one of another size.

#include <cstdint>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/whatif/model.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::whatif {

struct Reduction {
  std::uint32_t task;
  std::int64_t bytes;
};

/// All-reduces of gradients of one rank, in the order in which they run.
std::vector<Reduction> reductions_of(const Model& model);

/// Declined where they are not the gradients, each once, in the type they have.
Status each_gradient_once(const std::vector<Reduction>& recorded, const Gradients& gradients);

/// A latency and a bandwidth that explain the recorded transfers best; no latency where they do not differ in size.
class RecordedTransfers {
 public:
  RecordedTransfers(const graph::Graph& graph, const std::vector<Reduction>& recorded);
  [[nodiscard]] Ns time(double bytes) const;

 private:
  double latency_ = 0, per_byte_ = 0;
};

}  // namespace foretrace::whatif
