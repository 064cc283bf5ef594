#include "graph/pace.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/notable.hpp"

namespace foretrace::graph {

namespace {

/// What one step put into one stream.
struct Share {
  Ns first = INT64_MAX;  // begin of the first work
  Ns last = INT64_MIN;   // end of the last
  Ns busy = 0;
  Ns dry = 0;  // the stream had nothing to do: the next launch had not come yet
};
using Shares = std::map<std::uint32_t, Share>;  // by trace lane of the stream

std::uint32_t busiest(const Shares& shares) {
  std::uint32_t lane = kNone;
  Ns most = 0;
  for (const auto& [stream, share] : shares) {
    if (share.busy <= most) continue;
    most = share.busy;
    lane = stream;
  }
  return lane;
}

// The same work one step earlier or later, on one stream; 0 when neither is there. What is shorter than the work itself was
// the distance of other work.
Ns distance(const std::vector<Shares>& shares, std::size_t step, std::uint32_t lane) {
  const Share& own = shares[step].at(lane);
  Ns shortest = 0;
  const auto consider = [&](Ns found) {
    if (found >= own.busy && (shortest == 0 || found < shortest)) shortest = found;
  };
  if (step > 0) {
    if (const auto it = shares[step - 1].find(lane); it != shares[step - 1].end()) consider(own.last - it->second.last);
    if (shortest > 0) return shortest;
  }
  if (step + 1 < shares.size()) {
    if (const auto it = shares[step + 1].find(lane); it != shares[step + 1].end()) {
      consider(it->second.first - own.first);
      consider(it->second.last - own.last);
    }
  }
  return shortest;
}

bool blocks(const TraceIndex& index, const Call& call) {
  if (call.role == CallRole::kStreamSync || call.role == CallRole::kDeviceSync || call.role == CallRole::kEventSync)
    return true;
  if (call.role != CallRole::kLaunch || call.works != 1) return false;
  const GpuWork& w = index.work[index.work_by_call[call.first_work]];
  return w.end <= call.end && index.trace.kind(w.event) == trace::EventKind::kMemcpy;
}

// Time in which the thread of a step stood in calls that wait for the GPU, by step.
std::vector<Ns> waits_of(const TraceIndex& index, const std::vector<trace::Step>& ranges) {
  std::vector<Ns> waits(ranges.size(), 0);
  for (const Call& call : index.calls) {
    const auto behind = std::upper_bound(ranges.begin(), ranges.end(), call.begin,
                                         [](Ns t, const trace::Step& step) { return t < step.start; });
    if (behind == ranges.begin()) continue;
    const auto step = static_cast<std::size_t>(behind - ranges.begin() - 1);
    if (ranges[step].lane.valid() && ranges[step].lane.value != call.lane) continue;
    waits[step] += blocks(index, call) ? call.end - call.begin : call.blocked;
  }
  return waits;
}

}  // namespace

std::vector<StepPace> find_paces(const TraceIndex& index, const trace::Steps& steps) {
  const auto& ranges = steps.steps;
  const std::vector<Ns> waits = waits_of(index, ranges);
  std::vector<StepPace> paces(ranges.size());
  std::vector<Shares> shares(ranges.size());
  for (const GpuWork& w : index.work) {
    if (w.issued == INT64_MIN) continue;  // launched before the trace begins
    const auto behind = std::upper_bound(ranges.begin(), ranges.end(), w.issued,
                                         [](Ns t, const trace::Step& step) { return t < step.start; });
    if (behind == ranges.begin()) continue;
    const auto step = static_cast<std::size_t>(behind - ranges.begin() - 1);
    if (step + 1 == ranges.size() && w.issued >= ranges[step].end) continue;
    Share& share = shares[step][w.lane];
    share.first = std::min(share.first, w.begin);
    share.last = std::max(share.last, w.end);
    share.busy += w.end - w.begin;
    if (w.call != kNone && w.before != kNone && index.calls[w.call].end > index.work[w.before].end) {
      share.dry += std::max<Ns>(0, w.begin - index.work[w.before].end);
    }
    paces[step].behind |= w.call != kNone && w.issued < ranges[step].end && w.end > ranges[step].end;
  }
  for (std::size_t i = 0; i < paces.size(); ++i) {
    StepPace& pace = paces[i];
    const Ns traced = ranges[i].duration();
    if (!pace.behind) {
      pace.period = ranges.size() > 1 ? traced : 0;
      continue;
    }
    if (ranges.size() == 1) continue;
    const std::uint32_t lane = busiest(shares[i]);
    const Ns on_gpu = lane == kNone ? 0 : distance(shares, i, lane);
    const Ns on_cpu = i + 1 < ranges.size() ? std::max(traced, ranges[i + 1].start - ranges[i].start) : traced;
    const bool dry = lane == kNone || on_gpu == 0 || is_decisive(shares[i].at(lane).dry, on_gpu);
    pace.period = dry ? on_cpu : std::max(on_cpu - waits[i], on_gpu);
    pace.ramp_up = on_cpu < pace.period;
  }
  return paces;
}

namespace {

// Between the two nearest of sorted values.
Ns interpolated(const std::vector<Ns>& sorted, double p) {
  const double place = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = place - static_cast<double>(below);
  return sorted[below] + std::llround(part * static_cast<double>(sorted[above] - sorted[below]));
}

}  // namespace

StepSpread spread_of(const trace::Steps& steps, const std::vector<std::size_t>& which) {
  std::vector<Ns> lengths;
  for (const std::size_t i : which) lengths.push_back(steps.steps[i].duration());
  if (lengths.empty()) return {};
  std::sort(lengths.begin(), lengths.end());
  return {lengths.size(), interpolated(lengths, 0.1), interpolated(lengths, 0.9)};
}

std::vector<std::size_t> GraphBuilder::settled() const {
  std::vector<std::size_t> found;
  for (const auto& [cold_ones, ramp_up] : {std::pair(false, false), {false, true}, {true, false}, {true, true}}) {
    if (!found.empty()) break;
    for (std::size_t i = 0; i < paces_.size(); ++i) {
      if (cold(i) == cold_ones && paces_[i].ramp_up == ramp_up) found.push_back(i);
    }
  }
  return found;
}

std::size_t GraphBuilder::median() const {
  std::vector<std::size_t> order = settled();
  if (order.empty()) return 0;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return steps_->steps[a].duration() < steps_->steps[b].duration();
  });
  return order[(order.size() - 1) / 2];
}

}  // namespace foretrace::graph
