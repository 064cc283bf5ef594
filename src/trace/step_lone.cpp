// A range alone in its file, as serving engines write them: one batch, cut out of a longer recording. It runs from its first
// own task to the end of the GPU work it launched. The file lacks what the GPU did before, so that the batch may have
// waited for work nobody sees; that time is no part of it.

#include <algorithm>
#include <map>
#include <unordered_map>

#include "trace/step_ranges.hpp"

namespace foretrace::trace {

namespace {

// No stream starts work this late without a reason: launches take some microseconds.
constexpr Ns kLate = 50 * kNsPerUs;

struct Own {  // GPU work of the range
  std::uint32_t event;
  Ns launched;  // it could not start earlier
  Ns start, end;
};

struct Call {
  Ns begin, end;
  std::uint32_t works = 0;
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
    for (const Own& w : own_) step.end = std::max(step.end, w.end);
    if (step.end <= step.start) step.end = end_;
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
      if (start < begin_ || start >= end_ || t_.lanes[lane.index()].pid != t_.lanes[lane_.index()].pid) continue;
      if (lane == lane_) {
        first_task_ = std::min(first_task_, start);
        last_task_ = std::max(last_task_, std::min(t_.end(e), end_));
      }
      if (kind != EventKind::kRuntime) continue;
      if (lane == lane_) calls_.push_back({start, t_.end(e)});
      if (t_.events.correlation[e] != kAbsent) calls[t_.events.correlation[e]] = {start, t_.end(e)};
    }
    for (std::uint32_t e = 0; e < t_.size(); ++e) {
      if (t_.events.ph[e] != 'X' || !is_gpu_work(t_.kind(e))) continue;
      const auto call = calls.find(t_.events.correlation[e]);
      if (t_.events.correlation[e] == kAbsent || call == calls.end()) {
        others_.push_back(e);
        continue;
      }
      ++call->second.works;
      own_.push_back({e, 0, std::max(t_.events.start[e], call->second.begin), t_.end(e)});
    }
    for (Own& w : own_) {
      const Call& call = calls[t_.events.correlation[w.event]];
      // A graph's first kernel runs while the call still queues the others; a blocking copy ends before its call.
      w.launched = call.works == 1 && call.end <= w.start ? call.end : call.begin;
    }
    std::sort(own_.begin(), own_.end(), [](const Own& a, const Own& b) {
      return a.start != b.start ? a.start < b.start : a.event < b.event;
    });
  }

  // The first piece of a stream that started late though nothing in the file ran before it.
  [[nodiscard]] const Own* first_late() const {
    std::map<std::uint32_t, char> seen;  // streams
    for (const Own& w : own_) {
      if (!seen.emplace(t_.events.lane[w.event].value, 1).second || w.start - w.launched <= kLate) continue;
      const auto led_up = [&](Ns start, Ns end) { return start < w.start && end > w.start - kLate; };
      bool explained = false;
      for (const Own& x : own_) explained |= x.event != w.event && led_up(x.start, x.end);
      for (const std::uint32_t e : others_) explained |= led_up(t_.events.start[e], t_.end(e));
      if (!explained) return &w;
    }
    return nullptr;
  }

  void cut(Step& step) const {
    const Own* late = first_late();
    if (late == nullptr) return;
    // A thread that stood in a call meanwhile waited too: what it did afterwards moves with the GPU's work.
    bool blocked = false;
    for (const Call& c : calls_) blocked |= c.begin < late->start && c.end > late->start;
    Ns shift = INT64_MAX;
    for (const Own& w : own_) {
      if (w.start < late->start || (blocked && w.launched >= late->start)) continue;
      shift = std::min(shift, w.start - w.launched);
    }
    if (shift <= kLate || shift == INT64_MAX) return;
    if (!blocked) {
      // The thread went on: the step is over when both are.
      Ns gpu = step.start;
      for (const Own& w : own_) gpu = std::max(gpu, w.end - (w.start >= late->start ? shift : 0));
      shift = step.end - std::max(gpu, last_task_);
    }
    if (shift <= 0 || shift >= step.end - step.start) return;
    step.waited = shift;
    step.waited_until = late->start;
  }

  const Trace& t_;
  LaneId lane_;
  Ns begin_, end_;
  Ns first_task_ = INT64_MAX, last_task_ = INT64_MIN;
  std::vector<Call> calls_;            // of the range's own thread
  std::vector<Own> own_;               // by start
  std::vector<std::uint32_t> others_;  // GPU work somebody else launched
};

}  // namespace

Step lone_step(const Trace& trace, std::uint32_t range) { return LoneStep(trace, range).run(); }

}  // namespace foretrace::trace
