// CPU lanes, tiled exactly: every instant of a thread belongs to one task. Inside an operation or a call it belongs to the
// innermost one; what no operation covers (Python, annotations) is counted with the operation that follows, unless it is
// time of a range (range_time.hpp).

#include <algorithm>
#include <functional>
#include <queue>

#include "base/text.hpp"
#include "graph/range_time.hpp"
#include "graph/step_state.hpp"

namespace foretrace::graph {

namespace {

using trace::EventKind;

/// Time that is no work of this lane: its end is reached through a dependency, not by working.
struct Hole {
  Ns begin, end;
  bool join = false;  ///< a wait of the main thread: gets a task of its own
};

class Tiler {
 public:
  Tiler(StepState& s, std::uint32_t lane, std::vector<Hole> holes, std::vector<Ns> marks)
      : s_(s), lane_(lane), holes_(std::move(holes)), marks_(std::move(marks)) {}

  void run(Ns from, Ns to) {
    cursor_ = from;
    ranges_ = range_times(s_, lane_, from, to);
    for (const RangeTime& r : ranges_) {
      if (r.waits_for_batch) s_.waited_for_batch.insert(r.event);
    }
    for (const std::uint32_t e : s_.index.begun_in(lane_, s_.begin, to)) {
      const EventKind kind = s_.trace().kind(e);
      if (kind != EventKind::kOp && kind != EventKind::kRuntime) continue;
      const Ns begin = s_.trace().events.start[e];
      Ns end = std::min(s_.trace().end(e), to);
      close_until(begin);
      if (!open_.empty()) end = std::min(end, open_.back().end);  // overlapping rows of one thread: clipped
      advance(begin, e);
      if (kind == EventKind::kRuntime) {
        call(e, begin, end);
      } else {
        open_.push_back({e, end});
      }
    }
    close_until(INT64_MAX);
    advance(to, kNone);
    flush();
  }

 private:
  struct Open {
    std::uint32_t event;
    Ns end;
  };

  // Operations that end before `when` give their remaining time to themselves.
  void close_until(Ns when) {
    while (!open_.empty() && open_.back().end <= when) {
      advance(open_.back().end, kNone);
      open_.pop_back();
    }
  }

  // Time up to `when` belongs to the innermost open operation, else to the range it is in, else to `next`.
  void advance(Ns when, std::uint32_t next) {
    while (cursor_ < when) {
      Ns until = when;
      const std::uint32_t owner = open_.empty() ? outside_ops(next, until) : open_.back().event;
      while (mark_ < marks_.size() && marks_[mark_] <= cursor_) ++mark_;
      if (mark_ < marks_.size()) until = std::min(until, marks_[mark_]);
      if (hole_ < holes_.size() && holes_[hole_].end <= cursor_) {
        ++hole_;
        continue;
      }
      if (hole_ < holes_.size() && holes_[hole_].begin <= cursor_) {
        flush();
        cursor_ = std::min(holes_[hole_].end, std::max(when, holes_[hole_].end));
        if (holes_[hole_].join) s_.add_task(TaskKind::kWait, 0, cursor_ - s_.begin, join_name(), kNone, kNone);
        ++hole_;
        continue;
      }
      if (hole_ < holes_.size()) until = std::min(until, holes_[hole_].begin);
      if (owner != owner_ || pending_ == 0) {
        flush();
        owner_ = owner;
        pending_begin_ = cursor_;
      }
      pending_ += until - cursor_;
      cursor_ = until;
      if (mark_ < marks_.size() && marks_[mark_] == cursor_) flush();
    }
    // Time in front of an operation merges with the operation's own first stretch.
    if (open_.empty() && next == kNone) flush();
  }

  // The range whose time the cursor is in, or `next`; `until` moves to where that changes.
  std::uint32_t outside_ops(std::uint32_t next, Ns& until) {
    while (range_ < ranges_.size() && ranges_[range_].end <= cursor_) ++range_;
    if (range_ == ranges_.size()) return next;
    const RangeTime& r = ranges_[range_];
    until = std::min(until, r.begin <= cursor_ ? r.end : r.begin);
    return r.begin <= cursor_ ? r.event : next;
  }

  void flush() {
    if (pending_ > 0) {
      const StringId name = owner_ == kNone ? StringId{0u} : s_.trace().events.name[owner_];
      const EventKind kind = owner_ == kNone ? EventKind::kOp : s_.trace().kind(owner_);
      const bool works = kind == EventKind::kOp || kind == EventKind::kRuntime;
      s_.add_task(TaskKind::kCpu, pending_, pending_begin_ - s_.begin, name, owner_, works ? owner_ : kNone);
    }
    pending_ = 0;
  }

  void call(std::uint32_t event, Ns begin, Ns end) {
    flush();
    begin = std::max(begin, cursor_);
    end = std::max(end, begin);
    const std::uint32_t op = open_.empty() ? kNone : open_.back().event;
    const std::uint32_t c = call_of(event);
    Ns cost = end - begin;
    if (c != kNone) cost = std::max<Ns>(0, cost - s_.index.calls[c].blocked);
    const std::uint32_t task =
        s_.add_task(TaskKind::kCall, cost, begin - s_.begin, s_.trace().events.name[event], event, op);
    cursor_ = end;
    if (c == kNone) return;
    s_.call_task[c - s_.first_call] = task;
    if (can_wait(s_.index.calls[c])) {
      s_.wait_task[c - s_.first_call] =
          s_.add_task(TaskKind::kWait, 0, end - s_.begin, s_.trace().events.name[event], event, op);
    }
  }

  [[nodiscard]] bool can_wait(const Call& c) const {
    if (c.role != CallRole::kLaunch) return waits_for_gpu(c.kind);
    if (c.works != 1) return false;
    const GpuWork& w = s_.index.work[s_.index.work_by_call[c.first_work]];
    if (w.end > c.end || s_.trace().kind(w.event) != EventKind::kMemcpy) return false;
    if (c.kind.blocks) return true;
    const std::string_view copy = s_.trace().name(w.event);
    if (contains(copy, "Pageable")) return true;
    // ROCm does not say which memory of the host it is ("Device -> Host"): a call that lasted until its copy was done
    // waited for it.
    const bool unnamed = contains(copy, "Host") && !contains(copy, "Pinned");
    return c.kind.copies && unnamed;
  }

  // The call behind an event, when it is one of the window's.
  [[nodiscard]] std::uint32_t call_of(std::uint32_t event) const {
    const std::uint32_t c = s_.index.call_of(event);
    return c >= s_.first_call && c < s_.last_call ? c : kNone;
  }

  StringId join_name() {
    const StringId id = s_.trace().strings.find("autograd::engine");
    return id.valid() ? id : StringId{0u};
  }

  StepState& s_;
  std::uint32_t lane_;
  std::vector<Hole> holes_;
  std::vector<Ns> marks_;  // boundaries of tasks are forced here
  std::vector<Open> open_;
  std::vector<RangeTime> ranges_;
  std::size_t range_ = 0;
  Ns cursor_ = 0;
  Ns pending_begin_ = 0;
  Ns pending_ = 0;
  std::uint32_t owner_ = kNone;
  std::size_t hole_ = 0;
  std::size_t mark_ = 0;
};

void tile_main(StepState& s) {
  std::vector<Hole> holes;
  std::vector<Ns> marks;
  for (const Burst& b : s.bursts) {
    holes.push_back({b.hand, b.join, true});
    marks.push_back(b.hand);
    marks.push_back(b.join);
  }
  std::sort(holes.begin(), holes.end(), [](const Hole& a, const Hole& b) { return a.begin < b.begin; });
  holes.erase(std::unique(holes.begin(), holes.end(), [](const Hole& a, const Hole& b) { return a.begin == b.begin; }),
              holes.end());
  std::sort(marks.begin(), marks.end());
  s.open_lane(GraphLaneKind::kCpu, s.main);
  s.add_task(TaskKind::kBegin, 0, 0, StringId{0u}, kNone, kNone);
  Tiler(s, s.main, std::move(holes), std::move(marks)).run(s.begin, s.end);
  if (s.ends_with_gpu) s.end_wait = s.add_task(TaskKind::kWait, 0, s.end - s.begin, StringId{0u}, kNone, kNone);
  s.close_lane();
}

// A thread of its own: its bursts start when the main thread hands over; before its first event it does not exist.
void tile_other(StepState& s, std::uint32_t lane) {
  const std::span<const std::uint32_t> events = s.index.begun_in(lane, s.begin, INT64_MAX);
  Ns first = INT64_MAX;
  Ns last = INT64_MIN;
  for (const std::uint32_t e : s.index.begun_in(lane, s.begin, s.end)) {
    const EventKind kind = s.trace().kind(e);
    if (kind != EventKind::kOp && kind != EventKind::kRuntime) continue;
    first = std::min(first, s.trace().events.start[e]);
    last = std::max(last, std::min(s.trace().end(e), s.end));
  }
  if (first >= last) return;

  std::vector<Hole> holes;
  std::vector<Ns> marks;
  std::vector<const Burst*> bursts;
  // Bursts come lane by lane.
  const auto first_burst = std::lower_bound(s.bursts.begin(), s.bursts.end(), lane,
                                            [](const Burst& b, std::uint32_t l) { return b.lane < l; });
  for (auto b = first_burst; b != s.bursts.end() && b->lane == lane; ++b) bursts.push_back(&*b);
  std::sort(bursts.begin(), bursts.end(), [](const Burst* a, const Burst* b) { return a->begin < b->begin; });
  Ns idle = first;
  std::priority_queue<Ns, std::vector<Ns>, std::greater<>> running;  // ends of events that outlast the bursts so far
  auto it = events.begin();
  for (const Burst* b : bursts) {
    // Idle from the last event before the burst until it begins.
    for (; it != events.end() && s.trace().events.start[*it] < b->begin; ++it) running.push(s.trace().end(*it));
    for (; !running.empty() && running.top() <= b->begin; running.pop()) idle = std::max(idle, running.top());
    if (idle < b->begin) holes.push_back({idle, b->begin, false});
    marks.push_back(b->begin);
    marks.push_back(b->end);
  }
  std::sort(marks.begin(), marks.end());
  const std::uint32_t graph_lane = s.open_lane(GraphLaneKind::kCpu, lane);
  const auto first_task = static_cast<std::uint32_t>(s.graph.size());
  Tiler(s, lane, std::move(holes), std::move(marks)).run(first, last);
  s.close_lane();
  if (s.graph.size() == first_task) return;

  const std::uint32_t main_lane = 0;
  bool first_is_burst = false;
  for (const Burst* b : bursts) {
    const std::uint32_t before = s.task_before(graph_lane, b->begin - s.begin);
    const std::uint32_t starts = before == kNone ? first_task : before + 1;
    const std::uint32_t ends = s.task_before(graph_lane, b->end - s.begin);
    const std::uint32_t hand = s.task_before(main_lane, b->hand - s.begin);
    const std::uint32_t join = s.task_before(main_lane, b->join - s.begin + 1);
    if (starts >= s.graph.lanes[graph_lane].end || ends == kNone || ends < starts) continue;
    first_is_burst |= starts == first_task;
    if (s.without(DependencyKind::kThread)) continue;
    s.depend(hand == kNone ? 0 : hand, starts, b->begin - b->hand, DependencyKind::kThread);
    if (join != kNone) {
      // The wait is the task that begins where the hole ends.
      std::uint32_t wait = join;
      while (wait > 0 && s.graph.kind[wait] != TaskKind::kWait && s.graph.measured[wait] == b->join - s.begin) --wait;
      if (s.graph.kind[wait] == TaskKind::kWait) s.depend(ends, wait, b->join - b->end, DependencyKind::kThread);
    }
  }
  if (!first_is_burst && !s.without(DependencyKind::kBorder)) {
    s.depend(0, first_task, first - s.begin, DependencyKind::kBorder);
  }
}

}  // namespace

void tile_cpu_lanes(StepState& s) {
  const std::size_t calls = s.last_call - s.first_call;
  s.call_task.assign(calls, kNone);
  s.wait_task.assign(calls, kNone);
  if (s.main == kNone) {
    // Without a CPU the step still needs its beginning.
    s.open_lane(GraphLaneKind::kCpu, kNone);
    s.add_task(TaskKind::kBegin, 0, 0, StringId{0u}, kNone, kNone);
    s.close_lane();
    return;
  }
  tile_main(s);
  for (std::uint32_t lane = 0; lane < s.index.cpu.size(); ++lane) {
    if (lane == s.main || s.index.cpu[lane].empty()) continue;
    if (s.ours(lane)) {
      tile_other(s, lane);
    } else {
      s.graph.notes.foreign_events += s.index.cpu[lane].size();
    }
  }
}

}  // namespace foretrace::graph
