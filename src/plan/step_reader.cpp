#include "plan/step_reader.hpp"

#include <algorithm>

#include "foretrace/graph/graph.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "whatif/model/op_chains.hpp"
#include "whatif/model/simulate_model.hpp"

namespace foretrace::plan {

using graph::Graph;
using graph::Phase;
using whatif::BlockOfLayers;

namespace {

constexpr double byte_size(work::Dtype dtype) { return work::is_half(dtype) ? 2 : 4; }

}  // namespace

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

Whole StepReader::read() {
  times();
  details();
  communication();
  out_.all.parameters = static_cast<double>(m_.parameter_elements);
  out_.all.tensors = static_cast<double>(m_.parameter_tensors);
  if (m_.memory) memory();
  return out_;
}

double StepReader::boundary(const BlockOfLayers& block) const {
  double bytes = 0;
  for (const std::uint32_t t : block.forward) {
    const work::Work* w = m_.works.of(t);
    if (w != nullptr && w->elements > 0 && g_.phase[t] == Phase::kForward && g_.lane[t] == g_.lane[b_.begin]) {
      bytes = static_cast<double>(w->elements) * byte_size(w->out_dtype);
    }
  }
  return bytes;
}

StepReader::Levels StepReader::levels() const {
  const memory::Curve& c = *m_.memory;
  std::vector<Level> change(c.positions + 2);
  for (const memory::Block& k : c.blocks) {
    if (k.allocated > c.positions || k.freed <= k.allocated) continue;
    const auto add = [&](Level& to, double bytes) {
      to.bytes += bytes;
      if (k.kind == memory::Kind::kGradient) (k.allocated == 0 ? to.before : to.own) += bytes;
    };
    add(change[k.allocated], static_cast<double>(k.bytes));
    if (k.freed <= c.positions) add(change[k.freed], -static_cast<double>(k.bytes));
  }
  const std::uint32_t behind = position(behind_at_), back = position(back_at_), first_back = position(first_back_at_);
  // The backward pass of a single block has no visible end.
  const std::uint32_t end = back == first_back ? c.positions + 1 : first_back;
  Levels most;
  Level now;
  for (std::uint32_t i = 0; i <= c.positions; ++i) {
    now = {now.bytes + change[i].bytes, now.before + change[i].before, now.own + change[i].own};
    const auto raise = [&](Level& to) {
      if (now.bytes > to.bytes) to = now;
    };
    if (i >= behind && i < back) {
      if (now.before > 0 && now.before >= most.early.before) raise(most.early);
      if (now.bytes - now.before > most.behind.bytes - most.behind.before) most.behind = now;
    }
    if (i >= back && i < end) {
      raise(most.back);
      const auto without = [](const Level& l) { return l.bytes - l.before - l.own; };
      if (without(now) > without(most.without_gradients)) most.without_gradients = now;
    }
    if (i >= first_back) raise(most.end);
  }
  return most;
}

// The step's timeline where only the GPU, or only the CPU, takes time. On the GPU, collectives slow the kernels they overlap.
StepReader::Times StepReader::without(bool gpu) const {
  std::vector<Ns> cost(g_.cost.begin(), g_.cost.end());
  for (std::size_t t = 0; t < cost.size(); ++t) {
    if (graph::is_gpu(g_.kind[t]) == gpu) cost[t] = 0;
  }
  const std::optional<simulate::Contention> contention = gpu ? std::nullopt : whatif::contention_of(m_);
  const simulate::Timeline t =
      simulate::simulate(g_, {.cost = cost, .contention = contention ? &*contention : nullptr});
  return {{t.start.begin(), t.start.end()}, {t.end.begin(), t.end.end()}};
}

// When a task starts, and its launch; at the step's end the last one of the stream.
Ns StepReader::gpu_at(std::uint32_t t) const { return t < b_.end ? gpu_.start[t] : gpu_.end[b_.end - 1]; }

Ns StepReader::cpu_at(std::uint32_t t) const {
  while (t < b_.end && !g_.launch[t].valid()) ++t;
  if (t >= b_.end) return g_.last.valid() ? cpu_.start[g_.last.index()] : 0;
  return cpu_.start[g_.launch[t].index()];
}

Ns StepReader::gpu(std::uint32_t from, std::uint32_t to) const { return std::max<Ns>(0, gpu_at(to) - gpu_at(from)); }

Ns StepReader::cpu(std::uint32_t from, std::uint32_t to) const { return std::max<Ns>(0, cpu_at(to) - cpu_at(from)); }

void StepReader::times() {
  out_.all.forward = gpu_at(b_.backward);
  out_.all.forward_cpu = cpu_at(b_.backward);
  out_.all.backward = gpu(b_.backward, b_.update);
  out_.all.backward_cpu = cpu(b_.backward, b_.update);
  out_.update = gpu(b_.update, b_.end);
  out_.update_cpu = cpu(b_.update, b_.end);
  out_.first_forward = gpu_at(b_.first_block);
  out_.first_forward_cpu = cpu_at(b_.first_block);
  out_.last.backward = gpu(b_.backward, b_.last_block_back);
  out_.last.backward_cpu = cpu(b_.backward, b_.last_block_back);
}

void StepReader::details() {
  for (std::uint32_t t = b_.begin; t < b_.update; ++t) {
    const work::Work* w = m_.works.of(t);
    if (w == nullptr) continue;
    const auto add = [&](auto Part::* to, auto n) {
      out_.all.*to += n;
      if (behind_blocks(t)) out_.last.*to += n;
    };
    const bool forward = t < b_.backward;
    const Ns launched = t > b_.begin ? cpu(t - 1, t) : 0;
    if (forward && w->of_parameters) {
      add(&Part::once, gpu(t, t + 1));
      add(&Part::once_cpu, launched);
    }
    const auto* product = std::get_if<work::Gemm>(&w->kind);
    if (!forward && product != nullptr && product->weight_grad) {
      add(&Part::weight, gpu(t, t + 1));
      add(&Part::weight_cpu, launched);
    }
    if (forward && product != nullptr && behind_blocks(t)) {
      const double elements =
          static_cast<double>(product->batch) * static_cast<double>(product->m) * static_cast<double>(product->n);
      output_ = std::max(output_, elements * byte_size(w->out_dtype));
      // The other side of the product has the positions.
      head_ = std::max(head_, static_cast<double>(product->n) * static_cast<double>(product->k));
    }
    // A product's gradients are two of its size; all its kernels share one description.
    if (forward && is_product(*w)) {
      const double flops = 3 * w->flops / std::max(1U, w->kernels);
      add(&Part::flops, flops);
      flops_by_type_[static_cast<std::size_t>(w->dtype)] += flops;
    }
  }
}

// Collectives on lanes of their own: what they add to the GPU's time.
void StepReader::communication() {
  std::vector<std::pair<Ns, Ns>> calls;
  for (std::uint32_t t = 0; t < g_.size(); ++t) {
    if (g_.kind[t] == graph::TaskKind::kCollective) calls.emplace_back(gpu_.start[t], gpu_.end[t]);
  }
  std::sort(calls.begin(), calls.end());
  for (const auto& [from, to] : calls) {
    const auto begin = gpu_.start.begin() + b_.begin;
    const auto next =
        static_cast<std::uint32_t>(std::upper_bound(begin, gpu_.start.begin() + b_.end, from) - gpu_.start.begin());
    const std::uint32_t running = next > b_.begin ? next - 1 : next;
    const Ns busy_until = gpu_.end[running];
    const Ns exposed = std::max<Ns>(0, std::min(to, gpu_at(next)) - std::max(from, busy_until));
    out_.all.exposed += exposed;
    if (behind_blocks(running)) out_.last.exposed += exposed;
  }
}

// When the outermost operation of a task began, on the trace's clock.
Ns StepReader::asked(std::uint32_t t) const {
  const EventId event = g_.op[t].valid()       ? EventId{m_.chains->outermost(g_.op[t].value)}
                        : g_.launch[t].valid() ? g_.event[g_.launch[t].index()]
                                               : EventId{};
  return event.valid() ? m_.trace->events.start[event.index()] : 0;
}

Ns StepReader::asked_from(std::uint32_t t) const {
  while (t < b_.end) {
    if (const Ns at = asked(t); at > 0) return at;
    ++t;
  }
  return INT64_MAX;
}

bool StepReader::behind_blocks(const memory::Block& k) const {
  const Ns at = k.at > 0 ? k.at : k.op != kNone ? m_.trace->events.start[k.op] : 0;
  return at >= behind_at_ && at < back_at_;
}

// The first place in the order of allocations that was not before a moment of the trace.
std::uint32_t StepReader::position(Ns at) const {
  std::uint32_t first = m_.memory->positions + 1;
  for (const memory::Block& k : m_.memory->blocks) {
    if (k.at >= at && k.at > 0) first = std::min(first, k.allocated);
  }
  return first;
}

void StepReader::memory() {
  for (const memory::Block& k : m_.memory->blocks) {
    if (k.kind != memory::Kind::kActivation || k.stage != memory::Stage::kForward) continue;
    const auto to = k.of_parameters ? &Part::copies : &Part::activation;
    out_.all.*to += static_cast<double>(k.bytes);
    if (behind_blocks(k)) out_.last.*to += static_cast<double>(k.bytes);
  }
}

}  // namespace foretrace::plan
