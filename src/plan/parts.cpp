#include "plan/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "whatif/dataflow/blocks.hpp"
#include "whatif/model/op_chains.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::plan {
namespace {

using graph::Graph;
using graph::Phase;
using whatif::BlockOfLayers;
using whatif::Model;

// The blocks of the longest list of equal ones.
std::vector<BlockOfLayers> main_blocks(const Graph& g) {
  std::vector<BlockOfLayers> found = whatif::repeated_runs(g);
  whatif::drop_entries_beside_stages(found);
  std::erase_if(found, [](const BlockOfLayers& b) { return b.forward.empty() || b.first_backward == kNone; });
  std::map<std::string, std::vector<BlockOfLayers>> lists;
  for (BlockOfLayers& b : found) {
    std::string list = b.name.substr(0, b.name.find_last_not_of("0123456789") + 1);
    lists[std::move(list)].push_back(std::move(b));
  }
  std::vector<BlockOfLayers> most;
  for (auto& [name, blocks] : lists) {
    if (blocks.size() > most.size()) most = std::move(blocks);
  }
  return most;
}

// Where the parts begin on the main stream, as ids of GPU tasks: ascending.
struct Borders {
  std::uint32_t begin = kNone, first_block = kNone, behind_blocks = kNone, backward = kNone, last_block_back = kNone,
                first_block_back = kNone, update = kNone, end = kNone;
  [[nodiscard]] bool ascending() const {
    return begin <= first_block && first_block < behind_blocks && behind_blocks <= backward &&
           backward <= last_block_back && last_block_back <= first_block_back && first_block_back < update &&
           update < end;
  }
};

Result<Borders> borders_of(const Graph& g, const std::vector<BlockOfLayers>& blocks) {
  Borders b;
  const std::uint32_t lane = g.lane[blocks.front().forward.front()];
  const auto same_lane = [&](std::uint32_t t) { return g.lane[t] == lane; };
  b.begin = g.lanes[lane].begin;
  b.end = g.lanes[lane].end;
  const auto first_on_lane = [&](const BlockOfLayers& block) {
    const auto at = std::find_if(block.forward.begin(), block.forward.end(), same_lane);
    return at == block.forward.end() ? kNone : *at;
  };
  b.first_block = first_on_lane(blocks.front());
  for (const std::uint32_t t : blocks.back().forward) {
    if (same_lane(t) && g.phase[t] == Phase::kForward) b.behind_blocks = t + 1;
  }
  b.last_block_back = blocks.back().first_backward;
  b.first_block_back = blocks.front().first_backward;
  const auto first_of = [&](std::uint32_t from, Phase phase) {
    std::uint32_t t = from;
    while (t < b.end && g.phase[t] != phase) ++t;
    return t;
  };
  if (b.behind_blocks != kNone) b.backward = std::min(first_of(b.behind_blocks, Phase::kBackward), b.last_block_back);
  b.update = first_of(std::min(b.first_block_back, b.end), Phase::kOptimizer);
  if (!b.ascending()) {
    return fail(ErrorCode::kDeclined,
                "forward, backward and update of the repeated blocks do not follow each other on one stream");
  }
  return b;
}

constexpr double byte_size(work::Dtype dtype) { return work::is_half(dtype) ? 2 : 4; }

class Reader {
 public:
  Reader(const Model& m, const Model& base, std::vector<BlockOfLayers> blocks, const Borders& b)
      : m_(m), base_(base), g_(m.graph), blocks_(std::move(blocks)), b_(b), gpu_(without(false)), cpu_(without(true)) {
    out_.blocks = static_cast<int>(blocks_.size());
  }

  Parts read() {
    times();
    details();
    parameters();
    if (m_.memory) memory();
    return out_;
  }

 private:
  // The step's timeline where only the GPU, or only the CPU, takes time.
  [[nodiscard]] std::vector<Ns> without(bool gpu) const {
    std::vector<Ns> cost(g_.cost.begin(), g_.cost.end());
    for (std::size_t t = 0; t < cost.size(); ++t) {
      if (graph::is_gpu(g_.kind[t]) == gpu) cost[t] = 0;
    }
    const simulate::Timeline t = simulate::simulate(g_, {.cost = cost});
    return {t.start.begin(), t.start.end()};
  }

  // When a task starts, and its launch; at the step's end the last one of the stream.
  [[nodiscard]] Ns gpu_at(std::uint32_t t) const {
    return t < b_.end ? gpu_[t] : gpu_[b_.end - 1] + g_.cost[b_.end - 1];
  }
  [[nodiscard]] Ns cpu_at(std::uint32_t t) const {
    while (t < b_.end && !g_.launch[t].valid()) ++t;
    if (t >= b_.end) return g_.last.valid() ? cpu_[g_.last.index()] : 0;
    return cpu_[g_.launch[t].index()];
  }
  [[nodiscard]] Ns gpu(std::uint32_t from, std::uint32_t to) const {
    return std::max<Ns>(0, gpu_at(to) - gpu_at(from));
  }
  [[nodiscard]] Ns cpu(std::uint32_t from, std::uint32_t to) const {
    return std::max<Ns>(0, cpu_at(to) - cpu_at(from));
  }

  void times() {
    const Ns n = out_.blocks;
    const auto both = [&](std::uint32_t from, std::uint32_t to, Ns& on_gpu, Ns& on_cpu, Ns times = 1) {
      on_gpu = gpu(from, to) / times;
      on_cpu = cpu(from, to) / times;
    };
    out_.first.forward = gpu_at(b_.first_block);
    out_.first.forward_cpu = cpu_at(b_.first_block);
    both(b_.first_block, b_.behind_blocks, out_.block.forward, out_.block.forward_cpu, n);
    both(b_.behind_blocks, b_.backward, out_.last.forward, out_.last.forward_cpu);
    both(b_.backward, b_.last_block_back, out_.last.backward, out_.last.backward_cpu);
    both(b_.last_block_back, b_.first_block_back, out_.block.backward, out_.block.backward_cpu, n - 1);
    both(b_.first_block_back, b_.update, out_.first.backward, out_.first.backward_cpu);
    out_.first.backward = std::max<Ns>(0, out_.first.backward - out_.block.backward);
    out_.first.backward_cpu = std::max<Ns>(0, out_.first.backward_cpu - out_.block.backward_cpu);
    both(b_.update, b_.end, out_.update, out_.update_cpu);
  }

  // The part a task of the main stream belongs to, and how many blocks share its time; null for the update.
  struct Owner {
    Part* part = nullptr;
    double blocks = 1;
  };
  Owner owner(std::uint32_t t) {
    const double n = out_.blocks;
    if (t >= b_.update) return {};
    if (t < b_.first_block) return {&out_.first};
    if (t < b_.behind_blocks) return {&out_.block, n};
    if (t < b_.last_block_back) return {&out_.last};
    if (t < b_.first_block_back) return {&out_.block, n - 1};
    return {};  // the first block's backward and the embedding's have no visible border
  }

  void details() {
    std::vector<bool> counted(m_.works.size(), false);
    for (std::uint32_t t = b_.begin; t < b_.update; ++t) {
      const work::Work* w = m_.works.of(t);
      const Owner o = owner(t);
      if (w == nullptr || o.part == nullptr) continue;
      const auto add = [&](Ns& to, Ns time) { to += static_cast<Ns>(static_cast<double>(time) / o.blocks); };
      const bool forward = t < b_.backward;
      const Ns launched = t > b_.begin ? cpu(t - 1, t) : 0;
      if (forward && w->of_parameters) {
        add(o.part->once, gpu(t, t + 1));
        add(o.part->once_cpu, launched);
      }
      const auto* product = std::get_if<work::Gemm>(&w->kind);
      if (!forward && product != nullptr && product->weight_grad) {
        add(o.part->weight, gpu(t, t + 1));
        add(o.part->weight_cpu, launched);
      }
      if (forward && product != nullptr && o.part == &out_.last) {
        const double elements =
            static_cast<double>(product->batch) * static_cast<double>(product->m) * static_cast<double>(product->n);
        out_.output = std::max(out_.output, elements * byte_size(w->out_dtype));
      }
      if (counted[m_.works.row_of(t)] || w->flops <= 0 || !is_product(*w)) continue;
      counted[m_.works.row_of(t)] = true;
      if (forward) o.part->flops += 3 * w->flops / o.blocks;  // a product's gradients are two of its size
    }
    for (const std::uint32_t t : blocks_[blocks_.size() - 2].forward) {
      const work::Work* w = m_.works.of(t);
      if (w != nullptr && w->elements > 0 && g_.phase[t] == Phase::kForward && g_.lane[t] == g_.lane[b_.begin]) {
        out_.boundary = static_cast<double>(w->elements) * byte_size(w->out_dtype);
      }
    }
    communication();
  }

  // Collectives on lanes of their own, by the task of the main stream that runs behind them: what they add to the GPU's time.
  void communication() {
    std::vector<std::pair<Ns, Ns>> calls;
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (g_.kind[t] == graph::TaskKind::kCollective) calls.emplace_back(gpu_[t], gpu_[t] + g_.cost[t]);
    }
    std::sort(calls.begin(), calls.end());
    for (const auto& [from, to] : calls) {
      const auto begin = gpu_.begin() + b_.begin;
      const auto next = static_cast<std::uint32_t>(std::upper_bound(begin, gpu_.begin() + b_.end, from) - gpu_.begin());
      const std::uint32_t running = next > b_.begin ? next - 1 : next;
      const Ns busy_until = gpu_[running] + g_.cost[running];
      const Ns exposed = std::max<Ns>(0, std::min(to, gpu_at(next)) - std::max(from, busy_until));
      const Owner o = owner(running);
      Part* part = o.part == nullptr ? &out_.block : o.part;
      part->exposed += static_cast<Ns>(static_cast<double>(exposed) / (o.part == nullptr ? 1.0 : o.blocks));
    }
  }

  void parameters() {
    const Result<whatif::Gradients> found = whatif::find_gradients(m_);
    if (!found) return;
    out_.gradient_bytes = static_cast<double>(found->bytes_per_element);
    const double all = static_cast<double>(found->elements);
    if (base_.memory && all > 0) {
      double bytes = 0;
      for (const memory::Block& k : base_.memory->blocks) {
        if (k.kind == memory::Kind::kGradient) bytes += static_cast<double>(k.bytes);
      }
      // Between two and four bytes in each the nearer decides: some gradients are never seen.
      if (bytes > 0) out_.gradient_bytes = bytes / all < 3 ? 2 : 4;
    }
    // What a change divided of the parameters it has divided alike.
    const auto known = [](const Model& m) { return static_cast<double>(m.parameter_elements); };
    const double share = known(base_) > 0 ? known(m_) / known(base_) : 1;
    double first_and_block = 0;
    double count = 0;
    double largest = 0;
    for (const whatif::Gradient& gradient : found->list) {
      const double n = static_cast<double>(gradient.elements) * share;
      const std::uint32_t t = gradient.gpu;
      if (t == kNone || t >= b_.first_block_back) {
        first_and_block += n;
        ++count;
        largest = std::max(largest, n);
        continue;
      }
      const Owner o = owner(t);
      o.part->parameters += n / o.blocks;
      o.part->tensors += 1 / o.blocks;
      o.part->largest = std::max(o.part->largest, n);
    }
    out_.first.parameters = std::max(0.0, first_and_block - out_.block.parameters);
    out_.first.tensors = std::max(0.0, count - out_.block.tensors);
    out_.first.largest = largest;
  }

  // When the outermost operation of a task began, on the trace's clock.
  [[nodiscard]] Ns asked(std::uint32_t t) const {
    const EventId event = g_.op[t].valid()       ? EventId{m_.chains->outermost(g_.op[t].value)}
                          : g_.launch[t].valid() ? g_.event[g_.launch[t].index()]
                                                 : EventId{};
    return event.valid() ? m_.trace->events.start[event.index()] : 0;
  }
  [[nodiscard]] Ns asked_from(std::uint32_t t) const {
    while (t < b_.end) {
      if (const Ns at = asked(t); at > 0) return at;
      ++t;
    }
    return INT64_MAX;
  }

  void memory() {
    const memory::Curve& c = *m_.memory;
    out_.memory = true;
    const auto both = static_cast<double>(c.parameter_bytes + c.state_bytes);
    const double elements = out_.first.parameters + out_.last.parameters + out_.blocks * out_.block.parameters;
    out_.parameter_bytes =
        elements > 0 ? std::min(both, elements * out_.gradient_bytes) : static_cast<double>(c.parameter_bytes);
    out_.state_bytes = both - out_.parameter_bytes;
    out_.other_bytes =
        static_cast<double>(std::max<std::int64_t>(0, c.start_bytes - c.parameter_bytes - c.state_bytes));
    const Ns block = asked_from(b_.first_block);
    const Ns behind = asked_from(b_.behind_blocks);
    const Ns back = asked_from(b_.last_block_back);
    const Ns first_back = asked_from(b_.first_block_back);
    const auto place = [&](const memory::Block& k) -> Owner {
      const Ns at = k.at > 0 ? k.at : k.op != kNone ? m_.trace->events.start[k.op] : 0;
      if (at < block) return {&out_.first};
      if (at < behind) return {&out_.block, static_cast<double>(out_.blocks)};
      if (at < back) return {&out_.last};
      if (at < first_back) return {&out_.block, static_cast<double>(out_.blocks - 1)};
      return {&out_.first};
    };
    std::vector<std::pair<std::uint32_t, double>> changes;  // of what is not kept, by position
    std::vector<double> kept(c.blocks.size(), 0);
    for (std::size_t i = 0; i < c.blocks.size(); ++i) {
      const memory::Block& k = c.blocks[i];
      const Owner o = place(k);
      const auto bytes = static_cast<double>(k.bytes);
      if (k.kind == memory::Kind::kActivation && k.stage == memory::Stage::kForward) {
        (k.of_parameters ? o.part->copies : o.part->activation) += bytes / o.blocks;
      } else if (k.kind != memory::Kind::kGradient && k.kind != memory::Kind::kResident) {
        changes.emplace_back(k.allocated, bytes);
        if (k.freed != UINT32_MAX) changes.emplace_back(k.freed, -bytes);
      }
    }
    most_transient(c, std::move(changes), place);
  }

  template <class Place>
  void most_transient(const memory::Curve& c, std::vector<std::pair<std::uint32_t, double>> changes,
                      const Place& place) {
    std::stable_sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second < b.second;
    });
    std::size_t next = 0;
    double live = 0;
    for (const memory::Block& k : c.blocks) {
      while (next < changes.size() && changes[next].first <= k.allocated) live += changes[next++].second;
      if (k.stage == memory::Stage::kUpdate) break;
      Part* part = place(k).part;
      part->transient = std::max(part->transient, live);
    }
  }

  const Model& m_;
  const Model& base_;  // the step before any change
  const Graph& g_;
  std::vector<BlockOfLayers> blocks_;
  Borders b_;
  std::vector<Ns> gpu_, cpu_;  // starts
  Parts out_;
};

}  // namespace

Result<Parts> parts_of(const Model& m, const Model& base) {
  if (std::none_of(m.graph.phase.begin(), m.graph.phase.end(), [](Phase p) { return p == Phase::kBackward; })) {
    return fail(ErrorCode::kDeclined, "the step computes no gradients: plans are of training steps");
  }
  std::vector<BlockOfLayers> blocks = main_blocks(m.graph);
  if (blocks.size() < 2) return fail(ErrorCode::kDeclined, "no block of layers repeats in this step");
  FORETRACE_TRY(const Borders borders, borders_of(m.graph, blocks));
  return Reader(m, base, std::move(blocks), borders).read();
}

}  // namespace foretrace::plan
