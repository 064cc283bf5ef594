#include "graph/range_time.hpp"

#include <algorithm>
#include <unordered_map>

#include "graph/layer_marks.hpp"
#include "graph/step_state.hpp"
#include "trace/device_times.hpp"
#include "trace/ranges.hpp"

namespace foretrace::graph {

namespace {

using trace::EventKind;
using trace::LoaderRange;

class RangeScan {
 public:
  RangeScan(const StepState& s, Ns from, Ns to) : s_(s), from_(from), to_(to) {}

  std::vector<RangeTime> run(std::uint32_t lane) {
    for (const std::uint32_t e : s_.index.open_at(lane, from_)) visit(e);
    for (const std::uint32_t e : s_.index.begun_in(lane, from_, to_)) visit(e);
    pop_until(INT64_MAX);
    std::sort(found_.begin(), found_.end(), [](const RangeTime& a, const RangeTime& b) { return a.begin < b.begin; });
    return std::move(found_);
  }

 private:
  struct Open {
    std::uint32_t event;
    LoaderRange loader;
    Ns end, worked_until;
    bool works = false;  ///< an operation or a call is inside
  };

  struct Meaning {
    LoaderRange loader = LoaderRange::kNone;
    bool user_range = false;
  };

  Meaning meaning(std::uint32_t e) {
    const EventKind kind = s_.trace().kind(e);
    const std::uint64_t key = (std::uint64_t{s_.trace().events.name[e].value} << 1) | (kind == EventKind::kPython);
    const auto [it, added] = known_.try_emplace(key);
    if (added) {
      it->second.loader = trace::loader_range(s_.trace().name(e));
      it->second.user_range = is_user_range(kind, s_.trace().name(e));
    }
    return it->second;
  }

  void visit(std::uint32_t e) {
    const Ns begin = std::max(s_.trace().events.start[e], from_);
    const Ns end = std::min(s_.trace().end(e), to_);
    pop_until(begin);
    const EventKind kind = s_.trace().kind(e);
    if (kind == EventKind::kOp || kind == EventKind::kRuntime) {
      if (open_.empty()) return;
      open_.back().worked_until = std::max(open_.back().worked_until, end);
      open_.back().works = true;
      return;
    }
    if (kind != EventKind::kAnnotation && kind != EventKind::kPython) return;
    // The range that marks the step, or one that holds all of it.
    if ((begin == from_ && end == to_) || s_.trace().name(e) == s_.steps.steps[s_.which].name) return;
    // What a loader does inside is loading, whatever it is called.
    const bool loading = std::any_of(open_.begin(), open_.end(), [](const Open& o) { return loads(o.loader); });
    const Meaning m = meaning(e);
    if (loading && m.loader == LoaderRange::kWaitsForWorkers)
      open_.back().loader = m.loader;  // a frame around the range
    if (loading || (m.loader == LoaderRange::kNone && !m.user_range)) return;
    open_.push_back({e, m.loader, end, begin});
  }

  static bool loads(LoaderRange loader) {
    return loader == LoaderRange::kLoads || loader == LoaderRange::kWaitsForWorkers;
  }

  void pop_until(Ns when) {
    while (!open_.empty() && open_.back().end <= when) {
      const Open o = open_.back();
      open_.pop_back();
      const Ns begin = std::max(s_.trace().events.start[o.event], from_);
      const bool waits = o.loader == LoaderRange::kWaitsForWorkers || o.loader == LoaderRange::kQueue;
      if (loads(o.loader) || (o.loader == LoaderRange::kQueue && !o.works)) {
        put(begin, o.end, o.event, waits);
      } else if (o.loader == LoaderRange::kNone && o.end - o.worked_until > trace::kLongestLatency) {
        put(o.worked_until, o.end, o.event, false);
      }
      if (open_.empty()) continue;
      open_.back().works |= o.works;
      open_.back().worked_until = std::max(open_.back().worked_until, o.end);
    }
  }

  void put(Ns begin, Ns end, std::uint32_t event, bool waits) {
    if (end > begin) found_.push_back({begin, end, event, waits});
  }

  const StepState& s_;
  Ns from_, to_;
  std::vector<Open> open_;
  std::unordered_map<std::uint64_t, Meaning> known_;  // by name and kind
  std::vector<RangeTime> found_;
};

}  // namespace

std::vector<RangeTime> range_times(const StepState& state, std::uint32_t trace_lane, Ns from, Ns to) {
  return RangeScan(state, from, to).run(trace_lane);
}

}  // namespace foretrace::graph
