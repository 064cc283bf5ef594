#include <algorithm>

#include "foretrace/base/result.hpp"
#include "search/tensors.hpp"

namespace foretrace::search {

using simulate::Change;

TensorPlan separate(const TensorProblem& problem) {
  TensorPlan plan;
  plan.fused_with_previous.assign(problem.operations.size(), 0);
  plan.joined_with_previous.assign(problem.tensors.size(), 0);
  plan.parts.assign(problem.tensors.size(), 1);
  return plan;
}

namespace {
// Problems are made of graphs whose lanes run in order (tensor_step refuses others).
simulate::Incremental simulation_of(const graph::Graph& graph) {
  Result<simulate::Incremental> made = simulate::Incremental::make(graph);
  FORETRACE_CHECK(made.has_value());
  return std::move(*made);
}
}  // namespace

TensorEvaluator::TensorEvaluator(const TensorProblem& problem, bool incremental)
    : p_(problem), incremental_(incremental), simulation_(simulation_of(*problem.graph)), bytes_before_(1, 0) {
  for (const TensorProblem::Tensor& t : p_.tensors) bytes_before_.push_back(bytes_before_.back() + t.bytes);
  sync_cache_.resize(4096);
}

std::int64_t TensorEvaluator::bytes(std::size_t first, std::size_t last) const {
  return bytes_before_[last + 1] - bytes_before_[first];
}

// Models of collectives are slower than a simulation of a few hundred tasks, and the same sizes come again and again.
Ns TensorEvaluator::sync(std::int64_t bytes, int parts) {
  const std::int64_t key = bytes * 64 + parts;
  auto& slot = sync_cache_[static_cast<std::size_t>(key * 0x9E3779B97F4A7C15ULL >> 52)];
  for (const auto& [known, cost] : slot) {
    if (known == key) return cost;
  }
  slot.emplace_back(key, p_.sync(bytes, parts));
  return slot.back().second;
}

void TensorEvaluator::find_changes(const TensorPlan& plan) {
  changes_.clear();
  const graph::Graph& g = *p_.graph;
  for (std::size_t i = 0; i < p_.operations.size();) {
    std::size_t last = i;
    while (last + 1 < p_.operations.size() && plan.fused_with_previous[last + 1] != 0) ++last;
    for (std::size_t k = i; k <= last; ++k) {
      const TensorProblem::Operation& op = p_.operations[k];
      Ns cost = k == i ? g.cost[op.task] : 0;
      if (k == i && last > i) {
        cost = p_.fused(static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(last)).value_or(cost);
      }
      changes_.push_back({Change::kCost, op.task, cost});
      if (op.cpu != kNone) changes_.push_back({Change::kCost, op.cpu, k == i ? g.cost[op.cpu] : 0});
    }
    i = last + 1;
  }
  for (std::size_t i = 0; i < p_.tensors.size();) {
    std::size_t last = i;
    while (last + 1 < p_.tensors.size() && plan.joined_with_previous[last + 1] != 0) ++last;
    for (std::size_t k = i; k <= last; ++k) {
      const TensorProblem::Tensor& t = p_.tensors[k];
      changes_.push_back({Change::kCost, t.collective, k == last ? sync(bytes(i, last), plan.parts[last]) : 0});
      for (const std::uint32_t cpu : t.per_bucket) {
        changes_.push_back({Change::kCost, cpu, k == last ? g.cost[cpu] * plan.parts[last] : 0});
      }
    }
    i = last + 1;
  }
}

Ns TensorEvaluator::evaluate(const TensorPlan& plan) {
  ++evaluations_;
  find_changes(plan);
  if (incremental_) return simulation_.what_if(changes_);
  // In full: what a search without incremental simulation pays.
  costs_.assign(p_.graph->cost.begin(), p_.graph->cost.end());
  for (const Change& c : changes_) costs_[c.index] = c.value;
  static thread_local simulate::Timeline timeline;
  simulate::simulate(*p_.graph, {.cost = costs_}, timeline);
  return timeline.step;
}

void TensorEvaluator::accept() {
  simulation_.what_if(changes_);
  simulation_.accept();
}

void TensorEvaluator::look_at(const TensorPlan* plan) {
  if (plan == nullptr) {
    simulation_.what_if({});
    return;
  }
  find_changes(*plan);
  simulation_.what_if(changes_);
}

Ns TensorEvaluator::start(std::uint32_t task) const { return simulation_.start(task); }
Ns TensorEvaluator::end(std::uint32_t task) const { return simulation_.end(task); }
Ns TensorEvaluator::ready(std::uint32_t task) const { return simulation_.ready_without_lane(task); }
std::uint32_t TensorEvaluator::cause(std::uint32_t task) const { return simulation_.cause(task); }

}  // namespace foretrace::search
