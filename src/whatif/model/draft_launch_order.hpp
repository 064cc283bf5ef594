#pragma once
// Where inserted and relaunched GPU tasks stand on their streams: a part of Draft::commit.

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "foretrace/whatif/draft.hpp"
#include "whatif/model/call_order.hpp"

namespace foretrace::whatif {

/// A stream runs its work in the order in which it was launched. What a change puts on a stream, or launches in another way,
/// may say where it wants to stand, but only its call decides: it goes behind all whose call always comes before its own, and
/// in front of all whose call always comes behind. Otherwise a wait for it would wait for work that is launched behind the wait.
class Draft::LaunchOrder {
 public:
  /// `tasks`: draft ids of every lane, in order.
  LaunchOrder(const Draft& draft, const std::vector<std::vector<std::uint32_t>>& tasks)
      : d_(draft),
        g_(draft.base_),
        tasks_(tasks),
        position_(g_.size() + draft.added_.size(), kNone),
        relaunched_(g_.size(), kNone) {
    for (const std::vector<std::uint32_t>& lane : tasks) {
      for (std::size_t i = 0; i < lane.size(); ++i) position_[lane[i]] = static_cast<std::uint32_t>(i);
    }
    for (const auto& [task, call] : d_.launches_) {
      if (task < g_.size()) relaunched_[task] = call;
    }
  }

  /// The lane's tasks in an order its calls allow.
  [[nodiscard]] std::vector<std::uint32_t> ordered(std::uint32_t lane) {
    const std::vector<std::uint32_t>& tasks = tasks_[lane];
    const bool stream = lane < g_.lanes.size() && g_.lanes[lane].kind == graph::GraphLaneKind::kGpu;
    if (!stream || g_.lanes[lane].by_priority) return tasks;
    if (std::none_of(tasks.begin(), tasks.end(), [&](std::uint32_t t) { return moves(t); })) return tasks;
    if (!calls_) find_order();
    find_fixed(tasks);
    return merged(tasks);
  }
  /// The trace's own order contradicts its calls somewhere: what was put there may wait for itself.
  [[nodiscard]] bool contradicted() const { return contradicted_; }

 private:
  using At = CallOrder::Place;

  [[nodiscard]] std::uint32_t call_of(std::uint32_t t) const {
    std::uint32_t call = kNone;
    if (t >= g_.size()) {
      call = d_.added_[t - g_.size()].launch;
    } else if (relaunched_[t] != kNone) {
      call = relaunched_[t];
    } else if (g_.launch[t].valid()) {
      call = g_.launch[t].value;
    }
    return call == kNone || position_[call] == kNone ? kNone : call;
  }
  [[nodiscard]] bool moves(std::uint32_t t) const {
    return (t >= g_.size() || relaunched_[t] != kNone) && call_of(t) != kNone;
  }
  [[nodiscard]] At place_of(std::uint32_t call) const { return {d_.lane_of(call), position_[call]}; }
  [[nodiscard]] bool on_cpu(std::uint32_t t) const {
    const std::uint32_t lane = d_.lane_of(t);
    return lane < g_.lanes.size() && g_.lanes[lane].kind == graph::GraphLaneKind::kCpu;
  }

  // A removed task's neighbour that is left stands for it, as in the changed graph.
  [[nodiscard]] std::optional<At> left(std::uint32_t t, bool forward) const {
    if (position_[t] != kNone) return place_of(t);
    const graph::GraphLane& lane = g_.lanes[g_.lane[t]];
    while (position_[t] == kNone) {
      if (forward ? t + 1 >= lane.end : t == lane.begin) return std::nullopt;
      forward ? ++t : --t;
    }
    return place_of(t);
  }

  // Threads wait for threads, and for GPU work that some thread launched before.
  void find_order() {
    calls_.emplace(g_.lanes.size());
    const auto add = [&](std::uint32_t from, std::uint32_t to) {
      if (!on_cpu(to)) return;
      if (position_[to] == kNone && g_.kind[to] == TaskKind::kWait) return;
      if (!on_cpu(from)) from = call_of(from);
      if (from == kNone || !on_cpu(from)) return;
      const std::optional<At> a = left(from, false);
      const std::optional<At> b = left(to, true);
      if (a && b) calls_->wait(*a, *b);
    };
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      for (std::uint32_t d = g_.dep_begin[t]; d < g_.dep_begin[t + 1]; ++d) {
        if (g_.dep_kind[d] != DependencyKind::kShare) add(t, g_.dep_to[d]);
      }
    }
    for (const graph::Dependency& d : d_.dependencies_) add(d.from, d.to);
    calls_->settle();
  }

  /// Of the tasks that stay, those one thread launched: their places among all that stay, the earliest call from each on.
  struct Thread {
    std::vector<std::uint32_t> place, earliest;
  };
  void find_fixed(const std::vector<std::uint32_t>& tasks) {
    threads_.clear();
    std::uint32_t place = 0;
    for (const std::uint32_t t : tasks) {
      if (moves(t)) continue;
      if (const std::uint32_t call = call_of(t); call != kNone) {
        Thread& thread = threads_[d_.lane_of(call)];
        thread.place.push_back(place);
        thread.earliest.push_back(position_[call]);
      }
      ++place;
    }
    for (auto& [lane, thread] : threads_) {
      for (std::size_t i = thread.earliest.size(); i-- > 1;) {
        thread.earliest[i - 1] = std::min(thread.earliest[i - 1], thread.earliest[i]);
      }
    }
  }
  /// How many of the tasks that stay must be over before what this call launches.
  [[nodiscard]] std::uint32_t needs(At call) const {
    std::uint32_t needed = 0;
    for (const auto& [lane, thread] : threads_) {
      // Its own call's other tasks may stand on either side.
      const std::uint32_t known = lane == call.lane ? call.position : calls_->known(call, lane);
      const auto end = std::lower_bound(thread.earliest.begin(), thread.earliest.end(), known);
      if (end == thread.earliest.begin()) continue;
      needed = std::max(needed, thread.place[static_cast<std::size_t>(end - thread.earliest.begin()) - 1] + 1);
    }
    return needed;
  }

  /// What stays, in its order, and each thread's moving tasks by their calls, become one: the next is the one that stood first
  /// in `tasks` of those that wait for none of the others.
  [[nodiscard]] std::vector<std::uint32_t> merged(const std::vector<std::uint32_t>& tasks) {
    struct Next {
      std::uint32_t task;
      std::size_t asked;  // its place in `tasks`
      std::optional<At> call;
      std::uint32_t needed;  // tasks that stay and must be over
    };
    std::vector<Next> fixed;
    std::map<std::uint32_t, std::vector<Next>> moving;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const std::uint32_t call = call_of(tasks[i]);
      if (moves(tasks[i])) {
        const At at = place_of(call);
        moving[at.lane].push_back({tasks[i], i, at, needs(at)});
      } else {
        fixed.push_back({tasks[i], i, call == kNone ? std::nullopt : std::optional(place_of(call)), 0});
      }
    }
    struct Queue {
      std::vector<Next> all;
      std::size_t next = 0;
      [[nodiscard]] bool empty() const { return next == all.size(); }
      [[nodiscard]] const Next& head() const { return all[next]; }
    };
    std::vector<Queue> queues;
    queues.push_back({std::move(fixed)});
    for (auto& [lane, all] : moving) {
      std::stable_sort(all.begin(), all.end(),
                       [](const Next& a, const Next& b) { return a.call->position < b.call->position; });
      queues.push_back({std::move(all)});
    }
    const auto waits = [&](const Next& one) {
      if (one.needed > queues.front().next) return true;
      return one.call && std::any_of(queues.begin() + 1, queues.end(), [&](const Queue& q) {
               return !q.empty() && calls_->before(*q.head().call, *one.call);
             });
    };
    std::vector<std::uint32_t> out;
    out.reserve(tasks.size());
    while (out.size() < tasks.size()) {
      Queue* best = nullptr;
      Queue* first = nullptr;
      for (Queue& q : queues) {
        if (q.empty()) continue;
        if (first == nullptr || q.head().asked < first->head().asked) first = &q;
        if ((best == nullptr || q.head().asked < best->head().asked) && !waits(q.head())) best = &q;
      }
      if (best == nullptr) {
        contradicted_ = true;
        best = first;
      }
      out.push_back(best->head().task);
      ++best->next;
    }
    return out;
  }

  const Draft& d_;
  const Graph& g_;
  const std::vector<std::vector<std::uint32_t>>& tasks_;
  std::vector<std::uint32_t> position_;    // on its lane, by draft id
  std::vector<std::uint32_t> relaunched_;  // by task of the graph: its new call
  std::optional<CallOrder> calls_;
  std::map<std::uint32_t, Thread> threads_;  // of the lane at hand
  bool contradicted_ = false;
};

}  // namespace foretrace::whatif
