// A range alone in its file, as serving engines write them: one batch, cut out of a longer recording. It runs from its first
// own task to the end of the GPU work it launched. The file lacks what the GPU did before, so that the batch may have
// waited for work that is not in the trace; that time is not part of it.

#include <algorithm>
#include <map>
#include <unordered_map>

#include "trace/device_times.hpp"
#include "trace/step_ranges.hpp"

namespace foretrace::trace {

namespace {

struct Work {  // of the GPU
  std::uint32_t event;
  Ns launched;  // it could not start earlier; INT64_MAX when its call is not in the file
  Ns start, end;
  bool own;  // launched inside the range
};

struct Call {
  Ns begin, end;
  bool own;
};

class LoneStep {
 public:
  LoneStep(const Trace& trace, std::uint32_t range)
      : t_(trace), lane_(trace.events.lane[range]), begin_(trace.events.start[range]), end_(trace.end(range)) {}

  Step run() {
    Step step{{}, 0, begin_, end_, lane_};
    collect();
    if (first_task_ < INT64_MAX) step.start = first_task_;
    if (last_task_ > INT64_MIN) step.end = last_task_;
    for (const Work& w : work_) {
      if (w.own) step.end = std::max(step.end, w.end);
    }
    if (step.end <= step.start) step.end = end_;
    if (last_task_ > INT64_MIN) step.thread_end = last_task_;
    cut(step);
    return step;
  }

 private:
  void collect() {
    std::unordered_map<std::int64_t, Call> calls;
    for (std::size_t e = 0; e < t_.size(); ++e) {
      if (t_.events.ph[e] != 'X') continue;
      const EventKind kind = t_.kind(e);
      if (kind != EventKind::kOp && kind != EventKind::kRuntime) continue;
      const Ns start = t_.events.start[e];
      const LaneId lane = t_.events.lane[e];
      if (t_.lanes[lane.index()].pid != t_.lanes[lane_.index()].pid) continue;
      const bool own = start >= begin_ && start < end_;
      if (own && lane == lane_) {
        first_task_ = std::min(first_task_, start);
        last_task_ = std::max(last_task_, std::min(t_.end(e), end_));
      }
      if (kind != EventKind::kRuntime) continue;
      if (lane == lane_) calls_.push_back({start, t_.end(e), own});
      if (t_.events.correlation[e] != kAbsent) calls[t_.events.correlation[e]] = {start, t_.end(e), own};
    }
    for (std::uint32_t e = 0; e < t_.size(); ++e) {
      if (t_.events.ph[e] != 'X' || !is_gpu_work(t_.kind(e))) continue;
      Work w{e, INT64_MAX, t_.events.start[e], t_.end(e), false};
      const auto call = calls.find(t_.events.correlation[e]);
      if (t_.events.correlation[e] != kAbsent && call != calls.end()) {
        w.start = std::max(w.start, call->second.begin);
        w.end = std::max(w.end, w.start);
        w.own = call->second.own;
        // A graph may run while its call still queues the rest of it; a blocking copy ends before its call.
        w.launched = call->second.end <= w.start ? call->second.end : call->second.begin;
      }
      work_.push_back(w);
    }
    std::sort(work_.begin(), work_.end(),
              [](const Work& a, const Work& b) { return a.start != b.start ? a.start < b.start : a.event < b.event; });
  }

  // When GPU work that is not in the file ended, as far as own work shows it: a first piece of a stream started late, and
  // so did the first of all that ran without a break before it. INT64_MIN when nothing shows any.
  [[nodiscard]] Ns missing_until() const {
    std::vector<Ns> busy_until;  // by all work up to here
    for (const Work& w : work_)
      busy_until.push_back(std::max(busy_until.empty() ? INT64_MIN : busy_until.back(), w.end));
    std::map<std::uint32_t, char> seen;  // streams
    for (std::size_t i = 0; i < work_.size(); ++i) {
      const Work& w = work_[i];
      if (!w.own || !seen.emplace(t_.events.lane[w.event].value, 1).second || w.start - w.launched <= kLongestWake)
        continue;
      std::size_t first = i;
      while (first > 0 && busy_until[first - 1] > work_[first].start - kLongestWake) --first;
      const Work& head = work_[first];
      if (head.launched != INT64_MAX && head.start - head.launched > kLongestWake) return head.start;
    }
    return INT64_MIN;
  }

  void cut(Step& step) const {
    const Ns until = missing_until();
    if (until == INT64_MIN) return;
    // A thread that stood in a call meanwhile waited too: what it did afterwards moves with the GPU's work.
    bool blocked = false;
    for (const Call& c : calls_) blocked |= c.own && c.begin < until && c.end > until;
    Ns shift = INT64_MAX;
    for (const Work& w : work_) {
      if (!w.own || w.start < until || (blocked && w.launched >= until)) continue;
      shift = std::min(shift, w.start - w.launched);
    }
    if (shift <= kLongestWake || shift == INT64_MAX) return;
    if (!blocked) {
      // The thread went on: the step is over when both are.
      Ns gpu = step.start;
      for (const Work& w : work_) {
        if (w.own) gpu = std::max(gpu, w.end - (w.start >= until ? shift : 0));
      }
      shift = step.end - std::max(gpu, last_task_);
    }
    if (shift <= 0 || shift >= step.end - step.start) return;
    step.waited = shift;
    step.waited_until = until;
  }

  const Trace& t_;
  LaneId lane_;
  Ns begin_, end_;
  Ns first_task_ = INT64_MAX, last_task_ = INT64_MIN;
  std::vector<Call> calls_;  // of the range's thread
  std::vector<Work> work_;   // by start
};

}  // namespace

Step lone_step(const Trace& trace, std::uint32_t range) { return LoneStep(trace, range).run(); }

}  // namespace foretrace::trace
