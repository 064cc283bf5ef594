#include "simulate/pipeline_run.hpp"

#include <algorithm>
#include <optional>

namespace foretrace::simulate {
namespace {

constexpr Ns kNotYet = -1;

struct Cost {
  Ns gpu = 0;
  Ns cpu = 0;
};

Cost cost_of(const StageCost& s, ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return {s.forward, s.forward_cpu};
    case ActionKind::kBackward:
      return {s.backward, s.backward_cpu};
    case ActionKind::kBackwardInput:
      return {s.backward - s.weight, s.backward_cpu - s.weight_cpu};
    case ActionKind::kBackwardWeight:
      break;
  }
  return {s.weight, s.weight_cpu};
}

class Run {
 public:
  Run(const PipelineSchedule& schedule, const PipelineCosts& costs)
      : schedule_(schedule), costs_(costs), stages_(schedule.stages()) {
    const std::size_t cells = std::size_t{stages_} * schedule.shape.microbatches;
    forward_.assign(cells, kNotYet);
    backward_.assign(cells, kNotYet);
    const std::size_t ranks = schedule.ranks.size();
    state_.assign(ranks, {.seen = std::vector<bool>(schedule.shape.chunks)});
    out_.start.resize(ranks);
    out_.finish.resize(ranks);
    out_.busy.assign(ranks, 0);
    out_.finished.assign(ranks, 0);
  }

  PipelineRun take() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
        while (advance(rank)) moved = true;
      }
    }
    for (std::uint32_t rank = 0; rank < schedule_.ranks.size(); ++rank) {
      FORETRACE_CHECK(out_.start[rank].size() == schedule_.ranks[rank].size());  // no schedule waits for itself
      out_.end = std::max(out_.end, out_.finished[rank]);
    }
    return std::move(out_);
  }

 private:
  struct State {
    Ns gpu_free = 0;
    Ns cpu_free = 0;
    std::vector<bool> seen;  // chunks that did a forward
  };

  [[nodiscard]] std::size_t cell(const PipelineAction& a, std::uint32_t stage) const {
    return std::size_t{a.microbatch} * stages_ + stage;
  }

  // When what an action needs is there; nothing while it is not known yet.
  [[nodiscard]] std::optional<Ns> arrival(const PipelineAction& a, std::uint32_t stage) const {
    Ns from = 0;
    Ns transfer = 0;
    if (a.kind == ActionKind::kForward) {
      if (stage == 0) return 0;
      from = forward_[cell(a, stage - 1)];
      transfer = costs_.transfer[stage - 1];
    } else if (a.kind != ActionKind::kBackwardWeight) {
      if (stage + 1 == stages_) return forward_[cell(a, stage)] == kNotYet ? std::nullopt : std::optional<Ns>(0);
      from = backward_[cell(a, stage + 1)];
      transfer = costs_.transfer[stage];
    }
    return from == kNotYet ? std::nullopt : std::optional<Ns>(from + transfer);
  }

  // The next action of a rank, with the one that overlaps it.
  bool advance(std::uint32_t rank) {
    const auto& actions = schedule_.ranks[rank];
    const std::size_t first = out_.start[rank].size();
    if (first >= actions.size()) return false;
    std::size_t last = first + 1;
    while (last < actions.size() && actions[last].overlaps_previous) ++last;
    State& s = state_[rank];
    Ns start = std::max(s.gpu_free, s.cpu_free);
    Cost cost;
    for (std::size_t i = first; i < last; ++i) {
      const std::uint32_t stage = schedule_.stage_of(rank, actions[i].chunk);
      const auto there = arrival(actions[i], stage);
      if (!there) return false;
      start = std::max(start, *there);
      const Cost own = cost_of(costs_.stages[stage], actions[i].kind);
      cost.gpu += own.gpu;
      cost.cpu += own.cpu;
      if (actions[i].kind == ActionKind::kForward && !state_[rank].seen[actions[i].chunk]) {
        cost.gpu += costs_.stages[stage].once;
        cost.cpu += costs_.stages[stage].once_cpu;
      }
    }
    if (last > first + 1) cost.gpu = std::max<Ns>(0, cost.gpu - costs_.saved_by_pairing);
    s.cpu_free += cost.cpu;
    const Ns finish = std::max(start + cost.gpu, s.cpu_free);
    s.gpu_free = finish;
    for (std::size_t i = first; i < last; ++i) done(rank, actions[i], start, finish);
    out_.busy[rank] += finish - start;
    out_.finished[rank] = finish;
    return true;
  }

  void done(std::uint32_t rank, const PipelineAction& a, Ns start, Ns finish) {
    const std::uint32_t stage = schedule_.stage_of(rank, a.chunk);
    if (a.kind == ActionKind::kForward) {
      forward_[cell(a, stage)] = finish;
      state_[rank].seen[a.chunk] = true;
    }
    if (a.kind == ActionKind::kBackward || a.kind == ActionKind::kBackwardInput) backward_[cell(a, stage)] = finish;
    out_.start[rank].push_back(start);
    out_.finish[rank].push_back(finish);
    if (!costs_.sender_waits) return;
    const bool sends_on = a.kind == ActionKind::kForward && stage + 1 < stages_;
    const bool sends_back = a.kind != ActionKind::kForward && a.kind != ActionKind::kBackwardWeight && stage > 0;
    if (sends_on) state_[rank].gpu_free = finish + costs_.transfer[stage];
    if (sends_back) state_[rank].gpu_free = finish + costs_.transfer[stage - 1];
  }

  const PipelineSchedule& schedule_;
  const PipelineCosts& costs_;
  std::uint32_t stages_;
  std::vector<Ns> forward_;
  std::vector<Ns> backward_;
  std::vector<State> state_;
  PipelineRun out_;
};

}  // namespace

Ns PipelineRun::bubble() const {
  Ns most = 0;
  for (const Ns b : busy) most = std::max(most, b);
  return end - most;
}

PipelineRun run_pipeline(const PipelineSchedule& schedule, const PipelineCosts& costs) {
  return Run(schedule, costs).take();
}

}  // namespace foretrace::simulate
