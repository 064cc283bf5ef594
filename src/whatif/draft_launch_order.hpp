#pragma once
// Where inserted and relaunched GPU tasks stand on their streams: a part of Draft::commit.

#include <algorithm>
#include <map>
#include <vector>

#include "foretrace/whatif/draft.hpp"

namespace foretrace::whatif {

/// A stream runs its work in the order in which it was launched. What a change puts on a stream, or launches in another way,
/// may say where it wants to stand, but only its call decides: it goes behind all that the same thread launched before, and in
/// front of what that launches later. Otherwise a wait for it would wait for work that is launched behind the wait.
class Draft::LaunchOrder {
 public:
  /// `tasks`: draft ids of every lane, in order.
  LaunchOrder(const Draft& draft, const std::vector<std::vector<std::uint32_t>>& tasks)
      : d_(draft),
        g_(draft.base_),
        position_(g_.size() + draft.added_.size(), kNoTask),
        relaunched_(g_.size(), kNoTask) {
    for (const std::vector<std::uint32_t>& lane : tasks) {
      for (std::size_t i = 0; i < lane.size(); ++i) position_[lane[i]] = static_cast<std::uint32_t>(i);
    }
    for (const auto& [task, call] : d_.launches_) {
      if (task < g_.size()) relaunched_[task] = call;
    }
  }

  void keep(std::uint32_t lane, std::vector<std::uint32_t>& tasks) {
    if (lane >= g_.lanes.size() || g_.lanes[lane].kind != graph::GraphLaneKind::kGpu || g_.lanes[lane].by_priority)
      return;
    if (std::none_of(tasks.begin(), tasks.end(), [&](std::uint32_t t) { return moves(t); })) return;
    find_fixed(tasks);
    // Each slot holds what stands in front of one task that stays: itself in order, or moved there by its call.
    std::vector<std::vector<std::uint32_t>> slots(fixed_.size() + 1);
    std::uint32_t slot = 0;
    for (const std::uint32_t t : tasks) {
      if (moves(t)) {
        slots[allowed(t, slot)].push_back(t);
      } else {
        ++slot;
      }
    }
    std::vector<std::uint32_t> ordered;
    ordered.reserve(tasks.size());
    for (std::size_t s = 0; s < slots.size(); ++s) {
      sort_by_call(slots[s]);
      ordered.insert(ordered.end(), slots[s].begin(), slots[s].end());
      if (s < fixed_.size()) ordered.push_back(fixed_[s]);
    }
    tasks = std::move(ordered);
  }

 private:
  [[nodiscard]] std::uint32_t call_of(std::uint32_t t) const {
    std::uint32_t call = kNoTask;
    if (t >= g_.size()) {
      call = d_.added_[t - g_.size()].launch;
    } else if (relaunched_[t] != kNoTask) {
      call = relaunched_[t];
    } else if (g_.launch[t].valid()) {
      call = g_.launch[t].value;
    }
    return call == kNoTask || position_[call] == kNoTask ? kNoTask : call;
  }
  [[nodiscard]] bool moves(std::uint32_t t) const {
    return (t >= g_.size() || relaunched_[t] != kNoTask) && call_of(t) != kNoTask;
  }

  /// Of the tasks that stay, those one thread launched: their slots, the latest call up to each, the earliest from each on.
  struct Thread {
    std::vector<std::uint32_t> slot, latest, earliest;
  };
  void find_fixed(const std::vector<std::uint32_t>& tasks) {
    fixed_.clear();
    threads_.clear();
    for (const std::uint32_t t : tasks) {
      if (moves(t)) continue;
      if (const std::uint32_t call = call_of(t); call != kNoTask) {
        Thread& thread = threads_[d_.lane_of(call)];
        thread.slot.push_back(static_cast<std::uint32_t>(fixed_.size()));
        thread.latest.push_back(position_[call]);
      }
      fixed_.push_back(t);
    }
    for (auto& [lane, thread] : threads_) {
      thread.earliest = thread.latest;
      for (std::size_t i = 1; i < thread.latest.size(); ++i) {
        thread.latest[i] = std::max(thread.latest[i], thread.latest[i - 1]);
        const std::size_t back = thread.earliest.size() - 1 - i;
        thread.earliest[back] = std::min(thread.earliest[back], thread.earliest[back + 1]);
      }
    }
  }

  [[nodiscard]] std::uint32_t allowed(std::uint32_t t, std::uint32_t slot) const {
    const std::uint32_t call = call_of(t);
    const auto found = threads_.find(d_.lane_of(call));
    if (found == threads_.end()) return slot;
    const Thread& thread = found->second;
    const std::uint32_t at = position_[call];
    const auto before = std::lower_bound(thread.earliest.begin(), thread.earliest.end(), at);
    const auto behind = std::upper_bound(thread.latest.begin(), thread.latest.end(), at);
    const std::uint32_t low = before == thread.earliest.begin()
                                  ? 0
                                  : thread.slot[static_cast<std::size_t>(before - thread.earliest.begin()) - 1] + 1;
    const std::uint32_t high = behind == thread.latest.end()
                                   ? static_cast<std::uint32_t>(fixed_.size())
                                   : thread.slot[static_cast<std::size_t>(behind - thread.latest.begin())];
    return low <= high ? std::clamp(slot, low, high)
                       : slot;  // the trace's own order contradicts its calls: no better place
  }

  /// The places one thread's tasks have in a slot, given to them in the order of their calls.
  void sort_by_call(std::vector<std::uint32_t>& tasks) const {
    if (tasks.size() < 2) return;
    std::map<std::uint32_t, std::vector<std::size_t>> places;
    for (std::size_t i = 0; i < tasks.size(); ++i) places[d_.lane_of(call_of(tasks[i]))].push_back(i);
    for (const auto& [lane, own] : places) {
      std::vector<std::uint32_t> sorted;
      for (const std::size_t i : own) sorted.push_back(tasks[i]);
      std::stable_sort(sorted.begin(), sorted.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return position_[call_of(a)] < position_[call_of(b)]; });
      for (std::size_t i = 0; i < own.size(); ++i) tasks[own[i]] = sorted[i];
    }
  }

  const Draft& d_;
  const Graph& g_;
  std::vector<std::uint32_t> position_;    // on its lane, by draft id
  std::vector<std::uint32_t> relaunched_;  // by task of the graph: its new call
  std::vector<std::uint32_t> fixed_;       // of the lane at hand: the tasks that stay in their order
  std::map<std::uint32_t, Thread> threads_;
};

}  // namespace foretrace::whatif
