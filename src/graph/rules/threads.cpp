// CPU thread -> CPU thread. While another thread works for the main one (autograd's backward, above all), the main thread
// shows no event of its own: the work is between two neighbouring points of its timeline. That time is a wait of the
// main thread, and the other thread starts when the work is handed over.

#include <algorithm>

#include "graph/step_state.hpp"

namespace foretrace::graph {

namespace {

std::vector<Ns> points_of_main(const StepState& s) {
  std::vector<Ns> points = {s.begin};
  std::vector<Ns> ends;  // of what is open, innermost last
  const auto add = [&](Ns p) {
    if (p >= s.begin && p <= s.end && p != points.back()) points.push_back(p);
  };
  const auto close_until = [&](Ns when) {
    for (; !ends.empty() && ends.back() <= when; ends.pop_back()) add(ends.back());
  };
  for (const std::uint32_t e : s.index.open_at(s.main, s.begin)) ends.push_back(s.trace().end(e));
  for (const std::uint32_t e : s.index.begun_in(s.main, s.begin, s.end + 1)) {
    close_until(s.trace().events.start[e]);
    add(s.trace().events.start[e]);
    ends.push_back(s.trace().end(e));
  }
  close_until(INT64_MAX);
  add(s.end);
  // Rows of a thread that overlap without being nested come out of order.
  if (!std::is_sorted(points.begin(), points.end())) {
    std::sort(points.begin(), points.end());
    points.erase(std::unique(points.begin(), points.end()), points.end());
  }
  return points;
}

}  // namespace

void find_bursts(StepState& s) {
  if (s.main == kNone) return;
  const std::vector<Ns> points = points_of_main(s);
  for (std::uint32_t lane = 0; lane < s.index.cpu.size(); ++lane) {
    if (lane == s.main || s.index.has_ops[lane] == 0 || !s.ours(lane)) continue;
    bool open = false;
    Ns concurrent_until = INT64_MIN;  // end of an operation that runs concurrently with the main thread
    for (const std::uint32_t e : s.index.begun_in(lane, s.begin, s.end)) {
      const Ns a = s.trace().events.start[e];
      const Ns b = s.trace().end(e);
      const auto next = std::upper_bound(points.begin(), points.end(), a);
      // An event that straddles points of the main thread runs concurrently: nothing waits for it.
      if (next == points.begin() || next == points.end() || b > *next || a < concurrent_until) {
        const trace::EventKind kind = s.trace().kind(e);
        if (kind == trace::EventKind::kOp || kind == trace::EventKind::kRuntime)
          concurrent_until = std::max(concurrent_until, b);
        open = false;
        continue;
      }
      const Ns hand = *(next - 1);
      if (open && s.bursts.back().hand == hand) {
        s.bursts.back().end = std::max(s.bursts.back().end, b);
      } else {
        s.bursts.push_back({lane, hand, *next, a, b});
        open = true;
      }
    }
  }
  // Bookkeeping of idle threads also falls between points; only a burst that gives the GPU work is worth waiting for.
  std::vector<char> launches(s.bursts.size(), 0);
  for (std::uint32_t c = s.first_call; c < s.last_call; ++c) {
    const Call& call = s.index.calls[c];
    if (call.role != CallRole::kLaunch || call.lane == s.main) continue;
    // Bursts come lane by lane, by time.
    auto b = std::upper_bound(s.bursts.begin(), s.bursts.end(), call, [](const Call& made, const Burst& x) {
      return made.lane != x.lane ? made.lane < x.lane : made.begin < x.begin;
    });
    if (b == s.bursts.begin()) continue;
    --b;
    if (b->lane == call.lane && call.begin <= b->end) launches[static_cast<std::size_t>(b - s.bursts.begin())] = 1;
  }
  std::vector<Burst> kept;
  for (std::size_t b = 0; b < s.bursts.size(); ++b) {
    if (launches[b] != 0) kept.push_back(s.bursts[b]);
  }
  s.bursts = std::move(kept);
}

}  // namespace foretrace::graph
