// Launch calls that waited because the queue of their stream was full, and how many launches fit into it.

#include <algorithm>
#include <unordered_map>

#include "base/notable.hpp"
#include "base/statistics.hpp"
#include "graph/trace_index.hpp"
#include "trace/device_times.hpp"

namespace foretrace::graph {

namespace {

// Launches that fit into a stream's queue when the trace shows none that waited: measured on H200 and V100, where a
// call blocks while 1021 launches of its stream have not started.
constexpr std::uint32_t kDefaultQueueDepth = 1021;

}  // namespace

std::uint32_t TraceIndex::pending_at(const Call& call, Ns when) const {
  const GpuWork& first = work[work_by_call[call.first_work]];
  const auto& started = started_[first.lane];
  const auto earlier = started.begin() + first.position;
  return static_cast<std::uint32_t>(earlier - std::upper_bound(started.begin(), earlier, when)) + 1;
}

void TraceIndex::find_blocked_calls() {
  PendingOfLanes pending(trace.lanes.size());
  if (queue_full_.empty()) {
    infer_blocked_calls(pending);
  } else {
    // The rows carry no thread; they are inside the call that waited.
    std::size_t at = 0;
    Ns longest = 0;
    for (const Interval& i : queue_full_) longest = std::max(longest, i.end - i.begin);
    for (Call& c : calls) {
      while (at < queue_full_.size() && queue_full_[at].begin + longest < c.begin) ++at;
      Ns released = c.begin;
      for (std::size_t i = at; i < queue_full_.size() && queue_full_[i].begin < c.end; ++i) {
        const Ns from = std::max(queue_full_[i].begin, c.begin);
        const Ns to = std::min(queue_full_[i].end, c.end);
        if (to <= from) continue;
        c.blocked += to - from;
        released = std::max(released, to);
      }
      c.blocked = std::min(c.blocked, c.end - c.begin);
      if (c.blocked > 0 && c.role == CallRole::kLaunch) {
        pending[work[work_by_call[c.first_work]].lane].push_back(pending_at(c, released));
      }
    }
  }
  find_queue_depths(pending);
  std::vector<Ns> lags;
  for (const Call& c : calls) {
    if (c.blocked <= 0 || c.role != CallRole::kLaunch) continue;
    const GpuWork& first = work[work_by_call[c.first_work]];
    const std::uint32_t depth = queue_depth[first.lane];
    if (first.position < depth) continue;
    lags.push_back(c.begin + c.blocked - work[launch_order[first.lane][first.position - depth]].begin);
  }
  // Slots that event calls take make the depth wobble; a lag far from zero is that, not the device.
  if (!lags.empty()) queue_lag = median(lags);
  if (std::abs(queue_lag) > trace::kLongestWake) queue_lag = 0;
}

// A stream on which calls waited shows its own depth. Event calls take slots too, so that fewer launches fit while many of
// them are pending: the depth is what fits when there are few. Elsewhere at least as many fit as were seen pending behind a
// call that did not wait.
void TraceIndex::find_queue_depths(PendingOfLanes& pending) {
  queue_depth.assign(trace.lanes.size(), kDefaultQueueDepth);
  for (const Call& c : calls) {
    if (c.role != CallRole::kLaunch || c.blocked > 0) continue;
    std::uint32_t& depth = queue_depth[work[work_by_call[c.first_work]].lane];
    depth = std::max(depth, pending_at(c, c.end));
  }
  for (std::size_t lane = 0; lane < pending.size(); ++lane) {
    if (pending[lane].empty()) continue;
    // Not the largest: a few rows that belong to another call must not decide.
    queue_depth[lane] = quantile(pending[lane], 1 - kNotableShare);
    queue_depth_measured = true;
  }
}

// Older profilers write no rows for a full queue: a launch call that lasts ten times the typical with a large part of a queue
// pending waited for room, unless as many were pending behind calls that did not wait.
void TraceIndex::infer_blocked_calls(PendingOfLanes& pending) {
  std::vector<Ns> durations;
  for (const Call& c : calls) {
    if (c.role == CallRole::kLaunch) durations.push_back(c.end - c.begin);
  }
  if (durations.empty()) return;
  const Ns typical = median(durations);
  constexpr std::uint32_t kWobble = 8;  // slots that events take
  std::vector<std::uint32_t> fitted(pending.size(), 0);
  for (const Call& c : calls) {
    if (c.role != CallRole::kLaunch || c.end - c.begin > 2 * typical) continue;
    std::uint32_t& most = fitted[work[work_by_call[c.first_work]].lane];
    most = std::max(most, pending_at(c, c.end));
  }
  for (const Call& c : calls) {
    if (c.role != CallRole::kLaunch || c.end - c.begin <= 10 * typical) continue;
    const std::uint32_t p = pending_at(c, c.end);
    if (p + kWobble < fitted[work[work_by_call[c.first_work]].lane]) continue;
    if (is_decisive(p, kDefaultQueueDepth)) pending[work[work_by_call[c.first_work]].lane].push_back(p);
  }
  std::vector<std::uint32_t> depth(pending.size(), UINT32_MAX);
  for (std::size_t lane = 0; lane < pending.size(); ++lane) {
    if (!pending[lane].empty()) depth[lane] = median(pending[lane]);
  }
  std::unordered_map<std::uint32_t, std::vector<Ns>> free_calls;  // by name
  std::vector<std::uint32_t> full_calls;
  for (std::uint32_t i = 0; i < calls.size(); ++i) {
    const Call& c = calls[i];
    if (c.role != CallRole::kLaunch) continue;
    const std::uint32_t full = depth[work[work_by_call[c.first_work]].lane];
    if (full != UINT32_MAX && pending_at(c, c.end) + 4 >= full) {
      full_calls.push_back(i);
    } else {
      free_calls[trace.events.name[c.event].value].push_back(c.end - c.begin);
    }
  }
  std::unordered_map<std::uint32_t, Ns> typical_of;
  for (auto& [name, list] : free_calls) {
    if (list.size() > 2) typical_of[name] = median(list);
  }
  for (const std::uint32_t i : full_calls) {
    Call& c = calls[i];
    const auto it = typical_of.find(trace.events.name[c.event].value);
    const Ns own = it == typical_of.end() ? typical : it->second;
    if (c.end - c.begin > 2 * own) c.blocked = c.end - c.begin - own;
  }
}

}  // namespace foretrace::graph
