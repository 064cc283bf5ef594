// The step as it is once warm: start-up work is taken out of a cold step (startup.hpp says what that is). A first launch gets the time of
// later ones. Calls that allocate driver memory or load code take no time. Trials and compilation are removed with the kernels they
// launched. CPU time of an operation around such a call becomes that of the same operation elsewhere in the step.

#include "graph/startup.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/statistics.hpp"
#include "graph/step_state.hpp"

namespace foretrace::graph {

namespace {

class TakeOut {
 public:
  explicit TakeOut(StepState& s) : s_(s), g_(s.graph), out_(s.graph.notes.startup) {}

  void run() {
    calls();
    stretches_in_ranges();
    stretches_of_operations();
  }

 private:
  [[nodiscard]] Ns& sum(StartupKind kind) {
    switch (kind) {
      case StartupKind::kLaunch:
        return out_.launches;
      case StartupKind::kAllocation:
        return out_.allocation;
      case StartupKind::kTuning:
        return out_.tuning;
      case StartupKind::kCompiling:
        return out_.compiling;
      default:
        return out_.loading;
    }
  }

  void shorten(std::uint32_t task, Ns cost, Ns& into) {
    if (cost >= g_.cost[task]) return;
    into += g_.cost[task] - cost;
    g_.cost[task] = cost;
  }

  void calls() {
    for (std::uint32_t c = s_.first_call; c < s_.last_call; ++c) {
      std::uint32_t& task = s_.call_task[c - s_.first_call];
      if (task == kNone) continue;
      const bool launch = s_.index.calls[c].role == CallRole::kLaunch;
      if (launch && g_.op[task].valid()) launching_.insert(g_.op[task].value);
      const StartupKind kind = s_.startup.kind(c);
      if (kind == StartupKind::kNone) continue;
      const Ns before = g_.cost[task];
      shorten(task, s_.startup.warm(c), sum(kind));
      const bool much = before > kLongestWarmCall || kind == StartupKind::kTuning;
      if (much && g_.op[task].valid()) cold_.insert(g_.op[task].value);
      if (kind != StartupKind::kTuning && kind != StartupKind::kCompiling) continue;
      // What the call launched is not part of the step, and nothing waits for it.
      task = kNone;
      s_.wait_task[c - s_.first_call] = kNone;
    }
  }

  [[nodiscard]] bool is_stretch(std::uint32_t t) const { return g_.kind[t] == TaskKind::kCpu && g_.cost[t] > 0; }

  void stretches_in_ranges() {
    const std::vector<StartupRange>& ranges = s_.startup.ranges();
    if (ranges.empty()) return;
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (!is_stretch(t)) continue;
      const std::uint32_t lane = g_.lanes[g_.lane[t]].trace_lane.value;
      const Ns begin = s_.begin + g_.measured[t], end = begin + g_.cost[t];
      auto r = std::lower_bound(ranges.begin(), ranges.end(), begin, [&](const StartupRange& x, Ns when) {
        return x.lane != lane ? x.lane < lane : x.end <= when;
      });
      Ns inside = 0;
      StartupKind kind = StartupKind::kNone;
      for (; r != ranges.end() && r->lane == lane && r->begin < end; ++r) {
        inside += std::min(end, r->end) - std::max(begin, r->begin);
        kind = r->kind;
      }
      if (inside > 0) shorten(t, g_.cost[t] - inside, sum(kind));
    }
  }

  // Where the operation of a stretch begins: what is before it is the program's own.
  [[nodiscard]] Ns own_before(std::uint32_t t) const {
    const Ns op = s_.trace().events.start[g_.op[t].value] - s_.begin;
    return std::clamp<Ns>(op - g_.measured[t], 0, g_.cost[t]);
  }

  void stretches_of_operations() {
    std::unordered_map<std::uint32_t, std::vector<Ns>> by_name;
    std::vector<Ns> all;
    std::vector<std::uint32_t> long_ones;
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (!is_stretch(t)) continue;
      const bool launches = g_.op[t].valid() && launching_.contains(g_.op[t].value);
      const Ns inside = launches ? g_.cost[t] - own_before(t) : 0;
      if (launches && (cold_.contains(g_.op[t].value) || inside > kLongestWarmCall)) {
        long_ones.push_back(t);
      } else if (launches) {
        by_name[g_.name[t].value].push_back(inside);
        all.push_back(inside);
      }
    }
    const Ns typical = all.empty() ? 0 : median(all);
    for (const std::uint32_t t : long_ones) {
      const auto like = by_name.find(g_.name[t].value);
      const Ns warm = like == by_name.end() ? typical : median(like->second);
      shorten(t, own_before(t) + warm, out_.operations);
    }
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (is_stretch(t) && g_.cost[t] > kLongestWarmCall) out_.unsure += g_.cost[t];
    }
  }

  StepState& s_;
  Graph& g_;
  Startup& out_;
  std::unordered_set<std::uint32_t> launching_, cold_;  // operations, by event
};

}  // namespace

void take_out_startup(StepState& s) {
  s.graph.notes.allocator = s.startup.allocator(s.which);
  if (s.startup.cold(s.which)) TakeOut(s).run();
}

}  // namespace foretrace::graph
