#include "whatif/rewrite/collective_transfer.hpp"

#include <algorithm>

#include "foretrace/whatif/parallel.hpp"
#include "ranks/collectives.hpp"
#include "trace/communication.hpp"
#include "trace/tensor_size.hpp"
#include "whatif/rewrite/moved_collectives.hpp"
#include "work/op_view.hpp"

namespace foretrace::whatif {

namespace {

using trace::EventKind;

// Bytes of the tensors an operation or range was given; 0 when it does not say.
std::int64_t bytes_given(const trace::Trace& trace, std::uint32_t event) {
  const trace::OpInputs* inputs = trace.args.inputs(trace.events.args[event]);
  if (inputs == nullptr || !inputs->dims.valid() || !inputs->types.valid()) return 0;
  const std::vector<std::vector<std::int64_t>> dims = trace::parse_shapes(trace.strings[inputs->dims]);
  const std::vector<std::string> types = trace::parse_strings(trace.strings[inputs->types]);
  // The first tensor is the one that travels; c10d operations name the output, or the same tensor, behind it.
  for (std::size_t i = 0; i < std::min(dims.size(), types.size()); ++i) {
    if (dims[i].empty() || !trace::possible_shape(dims[i])) continue;
    const std::int64_t bytes = trace::elements_of(dims[i]) * work::element_bytes(types[i]);
    if (bytes > 0) return bytes;
  }
  return 0;
}

}  // namespace

CollectiveTransfers::CollectiveTransfers(const trace::Trace& trace, const hardware::Device& device) : trace_(trace) {
  if (const Result<Network> network = network_of({.fabric = usual_fabric(device)}, device)) {
    links_ = network->collectives;
  }
  std::vector<signed char> named(trace.strings.size(), -1);
  for (std::uint32_t e = 0; e < trace.size(); ++e) {
    const EventKind kind = trace.kind(e);
    if (kind != EventKind::kOp && kind != EventKind::kAnnotation) continue;
    signed char& known = named[trace.events.name[e].index()];
    if (known < 0) known = trace::is_communication_range(trace.name(e)) ? 1 : 0;
    if (known > 0 && bytes_given(trace, e) > 0) {
      ranges_.push_back({trace.events.lane[e].value, trace.events.start[e], trace.end(e), e});
    }
  }
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) {
    return a.lane != b.lane ? a.lane < b.lane : a.start != b.start ? a.start < b.start : a.end > b.end;
  });
}

// The innermost one: the last to begin before the launch that has not ended.
const CollectiveTransfers::Range* CollectiveTransfers::around_launch(const graph::Graph& graph,
                                                                     std::uint32_t task) const {
  if (!graph.launch[task].valid()) return nullptr;
  const EventId call = graph.event[graph.launch[task].index()];
  if (!call.valid()) return nullptr;
  const std::uint32_t lane = trace_.events.lane[call.index()].value;
  const Ns when = trace_.events.start[call.index()];
  auto after = std::upper_bound(ranges_.begin(), ranges_.end(), when,
                                [&](Ns at, const Range& r) { return r.lane != lane ? lane < r.lane : at < r.start; });
  constexpr int kNested = 4;  // c10d::…, record_param_comms, nccl:… and one more around a call
  for (int n = 0; n < kNested && after != ranges_.begin(); ++n) {
    --after;
    if (after->lane != lane) return nullptr;
    if (after->end >= when) return &*after;
  }
  return nullptr;
}

std::optional<Ns> CollectiveTransfers::of(const graph::Graph& graph, std::uint32_t task) const {
  const EventId event = graph.event[task];
  if (links_ == nullptr || !event.valid()) return std::nullopt;
  ranks::RecordedCollective recorded = ranks::recorded_collective(trace_, static_cast<std::uint32_t>(event.index()));
  if (recorded.ranks <= 0) recorded.ranks = trace_.distributed.world_size;
  if (recorded.ranks < 2 || recorded.ranks > MovedCollectives::kNode) return std::nullopt;
  if (recorded.bytes <= 0) {
    const Range* range = around_launch(graph, task);
    if (range == nullptr) return std::nullopt;
    recorded.bytes = bytes_given(trace_, range->event);
    const ranks::CollectiveKind named = ranks::recorded_collective(trace_, range->event).kind;
    if (named != ranks::CollectiveKind::kOther) recorded.kind = named;
    // The range names one rank's part; of an all-gather what comes out counts.
    if (recorded.kind == ranks::CollectiveKind::kAllGather) recorded.bytes *= recorded.ranks;
  }
  const std::optional<hardware::Collective> kind = hardware::parse_collective(ranks::to_string(recorded.kind));
  if (!kind) return std::nullopt;
  const hardware::CollectiveCall call{*kind, static_cast<double>(recorded.bytes), static_cast<int>(recorded.ranks)};
  return std::min(links_->cost(call).ns, graph.cost[task]);
}

}  // namespace foretrace::whatif
