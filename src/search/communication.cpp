#include "search/communication.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "hardware/collective.hpp"
#include "whatif/dataflow/blocks.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::search {

Result<whatif::Network> network_of(const Communication& c, const hardware::Device& device) {
  return whatif::network_of({c.fabric, c.collectives, c.collectives_tag, c.gpus_per_node}, device);
}

Result<whatif::Use> use_of(const Communication& c, const hardware::Device& device) {
  FORETRACE_TRY_VOID(whatif::check_nodes(c.workers, c.gpus_per_node));
  FORETRACE_TRY(whatif::Network network, network_of(c, device));
  whatif::Parallelism how;
  FORETRACE_TRY(how.scheme, whatif::parse_scheme(c.scheme));
  FORETRACE_TRY(how.compression, whatif::parse_compression(c.compression));
  how.bucket_mb = c.bucket_mb;
  how.first_bucket_mb = c.first_bucket_mb;
  for (const PlannedBucket& b : c.buckets) how.buckets.push_back({b.first, b.last});
  return whatif::parallel_use(how, std::move(network.collectives), c.workers, network.gpus_per_node);
}

std::vector<PlannedBucket> planned(const whatif::Gradients& gradients, const whatif::BucketPlan& plan) {
  std::vector<PlannedBucket> out;
  std::uint32_t next = 0;
  for (const whatif::Bucket& b : plan) {
    const auto last = next + static_cast<std::uint32_t>(b.gradients.size()) - 1;
    std::int64_t bytes = 0;
    for (std::uint32_t i = next; i <= last; ++i) bytes += gradients.list[i].elements * gradients.bytes_per_element;
    out.push_back({next, last, static_cast<double>(bytes) / (1 << 20), 1});
    next = last + 1;
  }
  return out;
}

Result<std::unique_ptr<TensorStep>> tensor_step(const whatif::Model& model, const Communication& c,
                                                const whatif::Network& network) {
  FORETRACE_TRY(const whatif::Gradients gradients, whatif::find_gradients(model));
  whatif::Parallelism alone;
  for (std::uint32_t i = 0; i < gradients.list.size(); ++i) alone.buckets.push_back({i, i});
  whatif::Model changed = model;
  whatif::Draft draft(model.graph, model.trace, model.chains, *model.latencies);
  FORETRACE_TRY_VOID(
      whatif::apply_parallelism(changed, draft, alone, {network.collectives.get(), c.workers, network.gpus_per_node}));
  auto out = std::make_unique<TensorStep>();
  out->graph = draft.commit();
  FORETRACE_TRY_VOID(graph::verify(out->graph));
  for (const graph::GraphLane& lane : out->graph.lanes) {
    if (lane.by_priority)
      return fail(ErrorCode::kDeclined, "the step has lanes by priority: its order is not searched");
  }
  const graph::Graph& g = out->graph;
  // Work that outlives the step: what counts is when the main stream is done.
  if (g.periodic) {
    out->graph.periodic = false;
    const graph::GraphLane& stream = g.lanes[gradients.stream];  // what a draft adds stands behind what there was
    if (stream.end > stream.begin) out->graph.last = TaskId{stream.end - 1};
  }
  TensorProblem& p = out->problem;
  p.graph = &out->graph;
  // Calls and waits that a joined gradient saves: the CPU tasks in front of its collective and behind it.
  std::vector<std::vector<std::uint32_t>> calls(g.size());
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t]) || g.task_name(t) != "DDP: all-reduce call") continue;
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      if (g.kind[g.dep_to[d]] == graph::TaskKind::kCollective) calls[g.dep_to[d]].push_back(t);
    }
  }
  std::vector<std::uint32_t> waits;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t]) && g.task_name(t) == "DDP: wait for a bucket") waits.push_back(t);
  }
  std::map<std::uint32_t, std::uint32_t> unit_of;  // main-stream task -> unit
  std::map<std::string, std::uint32_t, std::less<>> twins;
  for (const graph::GraphLane& lane : g.lanes) {
    if (lane.kind != graph::GraphLaneKind::kNetwork) continue;
    for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
      if (g.task_name(t) != "all-reduce of a bucket") continue;
      const std::size_t i = p.tensors.size();
      if (i >= gradients.list.size()) return fail(ErrorCode::kInternal, "more collectives than gradients");
      const whatif::Gradient& gradient = gradients.list[i];
      TensorProblem::Tensor tensor;
      tensor.collective = t;
      tensor.per_bucket = calls[t];
      if (i < waits.size()) tensor.per_bucket.push_back(waits[i]);
      tensor.bytes = gradient.elements * gradients.bytes_per_element;
      // Coarsened: gradients of one module (weight and bias) are ready together.
      const graph::LayerId layer =
          gradient.gpu < model.graph.size() ? model.graph.layer[gradient.gpu] : graph::LayerId{};
      const std::uint32_t key = layer.valid() ? layer.value : 0x8000'0000u + static_cast<std::uint32_t>(i);
      const bool joins = !p.tensors.empty() && !unit_of.empty() && unit_of.rbegin()->second == key;
      tensor.unit = joins ? p.tensors.back().unit : static_cast<std::uint32_t>(i);
      unit_of[static_cast<std::uint32_t>(i)] = key;
      // Symmetric: the same place in equal blocks.
      if (layer.valid()) {
        const std::string name(model.graph.strings[model.graph.layers[layer.index()].name]);
        const std::string block = whatif::block_of(name);
        if (!block.empty() && block.size() < name.size()) {
          const std::string place = fmt::format("{}/{}", name.substr(block.size()), tensor.bytes);
          tensor.twin = twins.try_emplace(place, static_cast<std::uint32_t>(twins.size())).first->second;
        }
      }
      p.tensors.push_back(std::move(tensor));
    }
  }
  if (p.tensors.size() != gradients.list.size()) {
    return fail(ErrorCode::kDeclined, "this scheme's reductions cannot be planned gradient by gradient");
  }
  p.fused = [](std::uint32_t, std::uint32_t) -> std::optional<Ns> { return std::nullopt; };
  const hardware::CollectiveModel* const collectives = network.collectives.get();
  const int workers = c.workers;
  p.sync = [collectives, workers](std::int64_t bytes, int parts) {
    const double each_part = static_cast<double>(bytes) / parts;
    return collectives->cost({hardware::Collective::kAllReduce, each_part, workers}).ns * parts;
  };
  return out;
}

Result<std::vector<PlannedBucket>> plan_buckets(const whatif::Model& model, const Communication& c,
                                                const whatif::Network& network, const TensorOptions& options) {
  FORETRACE_TRY(const std::unique_ptr<TensorStep> step, tensor_step(model, c, network));
  const TensorProblem& p = step->problem;
  const TensorResult found = search_tensors(p, separate(p), options);
  std::vector<PlannedBucket> out;
  std::int64_t bytes = 0;
  std::uint32_t first = 0;
  for (std::uint32_t i = 0; i < p.tensors.size(); ++i) {
    bytes += p.tensors[i].bytes;
    if (i + 1 < p.tensors.size() && found.plan.joined_with_previous[i + 1] != 0) continue;
    out.push_back({first, i, static_cast<double>(bytes) / (1 << 20), found.plan.parts[i]});
    first = i + 1;
    bytes = 0;
  }
  return out;
}

}  // namespace foretrace::search
