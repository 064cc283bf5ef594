#pragma once
// The part of a recorded collective that moves data. A rank's kernel also waits inside the collective until the last rank arrives, which one
// rank's trace does not show: the transfer is what the links of such a node need for its size; the rest is waiting.
//
//   CollectiveTransfers transfers(trace, device);
//   transfers.of(graph, task);      // 86 us of a kernel of 5.6 ms; nothing where neither size nor ranks are known

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "foretrace/base/types.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/trace/trace.hpp"
#include "hardware/collective.hpp"

namespace foretrace::whatif {

class CollectiveTransfers {
 public:
  CollectiveTransfers(const trace::Trace& trace, const hardware::Device& device);
  /// At most the task's cost. Nothing where the group is larger than a node: the network between nodes is unknown.
  [[nodiscard]] std::optional<Ns> of(const graph::Graph& graph, std::uint32_t task) const;

 private:
  struct Range {
    std::uint32_t lane;
    Ns start, end;
    std::uint32_t event;
  };
  [[nodiscard]] const Range* around_launch(const graph::Graph& graph, std::uint32_t task) const;

  const trace::Trace& trace_;
  std::shared_ptr<const hardware::CollectiveModel> links_;
  std::vector<Range> ranges_;  // CPU ranges that name a collective and its tensor, by lane and start
};

}  // namespace foretrace::whatif
