#include "graph/pace.hpp"

#include <algorithm>
#include <map>

namespace foretrace::graph {

namespace {

/// What one step put into one stream.
struct Share {
  Ns first = INT64_MAX;  // begin of the first work
  Ns last = INT64_MIN;   // end of the last
  Ns busy = 0;
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

// The same work one step earlier, else one step later; 0 when neither is there.
Ns distance(const std::vector<Shares>& shares, std::size_t step, std::uint32_t lane) {
  const Share& own = shares[step].at(lane);
  if (step > 0) {
    if (const auto it = shares[step - 1].find(lane); it != shares[step - 1].end()) return own.last - it->second.last;
  }
  if (step + 1 < shares.size()) {
    if (const auto it = shares[step + 1].find(lane); it != shares[step + 1].end()) return it->second.first - own.first;
  }
  return 0;
}

}  // namespace

std::vector<StepPace> find_paces(const TraceIndex& index, const trace::Steps& steps) {
  const auto& ranges = steps.steps;
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
    paces[step].behind |= w.call != kNone && w.issued < ranges[step].end && w.end > ranges[step].end;
  }
  for (std::size_t i = 0; i < paces.size(); ++i) {
    StepPace& pace = paces[i];
    const Ns traced = ranges[i].duration();
    if (!pace.behind) {
      pace.period = ranges.size() > 1 ? traced : 0;
      continue;
    }
    const std::uint32_t lane = busiest(shares[i]);
    if (lane != kNone) pace.period = std::max<Ns>(0, distance(shares, i, lane));
    constexpr Ns kShort = 9;  // of ten parts
    pace.ramp_up = traced * 10 < pace.period * kShort;
  }
  return paces;
}

std::size_t GraphBuilder::median() const {
  std::vector<std::size_t> order;
  for (const bool ramp_up : {false, true}) {
    if (!order.empty()) break;
    for (std::size_t i = 0; i < paces_.size(); ++i) {
      if (paces_[i].ramp_up == ramp_up) order.push_back(i);
    }
  }
  if (order.empty()) return 0;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return steps_->steps[a].duration() < steps_->steps[b].duration();
  });
  return order[(order.size() - 1) / 2];
}

}  // namespace foretrace::graph
