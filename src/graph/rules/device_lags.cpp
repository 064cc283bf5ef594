// Why each GPU task started when it did. A task has several constraints: its launch, the task before it on its stream,
// the work its stream waited for. The one that was satisfied last is binding; the distance from it to the task's start is
// the device's own (a gap between kernels, a launch's latency) and is kept, for this task, as measured. The others get
// the usual distance, so that any of them can become binding in a what-if.
//
// A binding distance too long for a device gap has another cause: the GPU was full. Then the task waits for the task of
// another stream that made room, by ending or by reaching its last wave of blocks; or it stood in one hardware queue behind
// a collective that began late.

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include "base/statistics.hpp"
#include "graph/step_state.hpp"

namespace foretrace::graph {

namespace {

// Replaying the traces at hand is insensitive to this from 6 to 15 µs; device gaps end below 3 µs.
constexpr Ns kLongestGap = 10 * kNsPerUs;
// Inside a CUDA graph the gap is 0.4 µs.
constexpr Ns kLongestGraphGap = 2 * kNsPerUs;
// Distances above this are left out of medians, and counted as unexplained when nothing causes them.
constexpr Ns kOutlier = 20 * kNsPerUs;
// A task that held the device in the trace may come much later in a changed graph; then it holds nothing.
constexpr Ns kShareSlack = 500 * kNsPerUs;
constexpr Ns kForever = INT64_MAX / 4;
// Measured on H200 where a trace has too few samples of its own: kernel to kernel, and launch to idle stream.
constexpr Ns kUsualGap = 1200;
constexpr Ns kUsualLatency = 1600;
constexpr std::size_t kEnoughSamples = 3;

class LagRule {
 public:
  explicit LagRule(StepState& s) : s_(s) {}

  void run() {
    sample();
    by_end_.resize(s_.works.size());
    for (std::uint32_t i = 0; i < by_end_.size(); ++i) by_end_[i] = i;
    std::sort(by_end_.begin(), by_end_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::tuple(s_.gpu(a).end, a) < std::tuple(s_.gpu(b).end, b);
    });
    for (std::uint32_t i = 0; i < s_.works.size(); ++i) {
      std::erase_if(running_, [&](std::uint32_t x) { return s_.gpu(x).end <= s_.gpu(i).begin; });
      bind(i);
      running_.push_back(i);
    }
  }

 private:
  enum class Cause : std::uint8_t { kLaunch, kStream, kWait, kShare, kBorder };  // ties: the later one wins

  struct Timing {  // of the launch call
    Ns begin, release, end;
  };
  [[nodiscard]] Timing timing(const GpuWork& w) const {
    const Call& c = s_.index.calls[w.call];
    return {c.begin, c.begin + c.blocked, c.end};
  }
  [[nodiscard]] bool launched_here(std::uint32_t i) const {
    return !s_.works[i].border && s_.gpu(i).call != kNone && s_.graph.launch[s_.works[i].task].valid();
  }

  // Keys of the tables of usual gaps, most special first.
  static std::uint64_t key(std::uint64_t kind, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    return (kind << 62) ^ (a << 44) ^ (b << 22) ^ c;
  }
  void keys(const GpuWork& before, const GpuWork& w, std::uint64_t (&out)[4]) const {
    const auto kind = [&](const GpuWork& x) { return static_cast<std::uint64_t>(s_.trace().kind(x.event)); };
    const auto name = [&](const GpuWork& x) { return std::uint64_t{s_.trace().events.name[x.event].value}; };
    out[0] = key(0, w.lane, name(before), name(w));
    out[1] = key(1, w.lane, kind(before), kind(w));
    out[2] = key(2, 0, kind(before), kind(w));
    out[3] = key(3, 0, 0, 0);
  }

  void sample() {
    std::vector<Ns> latencies;
    for (std::uint32_t i = 0; i < s_.works.size(); ++i) {
      if (!launched_here(i) || !s_.works[i].waits.empty()) continue;
      const GpuWork& w = s_.gpu(i);
      const Timing call = timing(w);
      const std::uint32_t p = s_.works[i].previous;
      const bool idle = p == kNone || s_.gpu(p).end + 5 * kNsPerUs < call.begin;
      if (idle && w.group == 1 && w.begin - call.end < kOutlier) latencies.push_back(w.begin - call.end);
    }
    if (latencies.size() >= kEnoughSamples) latency_ = median(latencies);

    // Gaps of tasks that only the one in front can have held back: their launch had come through.
    std::unordered_map<std::uint64_t, std::vector<Ns>> samples;
    for (std::uint32_t i = 0; i < s_.works.size(); ++i) {
      const std::uint32_t p = s_.works[i].previous;
      if (p == kNone || !launched_here(i)) continue;
      const GpuWork& w = s_.gpu(i);
      const Ns gap = w.begin - s_.gpu(p).end;
      if (s_.gpu(p).end < timing(w).end + std::max<Ns>(0, latency_) || gap < 0 || gap > kOutlier) continue;
      std::uint64_t k[4];
      keys(s_.gpu(p), w, k);
      for (const std::uint64_t one : k) samples[one].push_back(gap);
    }
    for (auto& [k, list] : samples) {
      if (list.size() >= kEnoughSamples) gaps_[k] = median(list);
    }
  }

  [[nodiscard]] Ns usual_gap(const GpuWork& before, const GpuWork& w) const {
    if (!s_.options.device_gaps) return 0;
    std::uint64_t k[4];
    keys(before, w, k);
    for (const std::uint64_t one : k) {
      if (const auto it = gaps_.find(one); it != gaps_.end()) return it->second;
    }
    return kUsualGap;
  }

  struct Constraint {
    Ns nominal;  // when it would be satisfied with the usual distance
    Cause cause;
    std::uint32_t source;  // StepWork; kNone for the launch
    Ns satisfied;          // when its source was done
  };

  void bind(std::uint32_t i) {
    StepWork& work = s_.works[i];
    const GpuWork& w = s_.gpu(i);
    if (!launched_here(i)) {
      place_border(i);
      return;
    }
    const Timing call = timing(w);
    const bool graph = w.group > 1;
    const std::uint32_t head = graph ? s_.index.work_by_call[s_.index.calls[w.call].first_work] : work.work;
    const bool is_head = head == work.work;
    const Ns head_begin = s_.index.work[head].begin;

    std::vector<Constraint> all;
    const Ns launch_nominal = graph && !is_head ? head_begin : std::min(call.end + latency_, w.begin);
    const Ns launch_done = !graph ? call.end : is_head ? w.begin : head_begin;
    all.push_back({launch_nominal, Cause::kLaunch, kNone, launch_done});
    if (work.previous != kNone) {
      const GpuWork& p = s_.gpu(work.previous);
      all.push_back({std::min(p.end + usual_gap(p, w), w.begin), Cause::kStream, work.previous, p.end});
    }
    for (const std::uint32_t x : work.waits) {
      const GpuWork& p = s_.gpu(x);
      all.push_back({std::min(p.end + usual_gap(p, w), w.begin), Cause::kWait, x, p.end});
    }
    Constraint binding = *std::max_element(all.begin(), all.end(), [](const Constraint& a, const Constraint& b) {
      return std::tuple(a.nominal, a.cause) < std::tuple(b.nominal, b.cause);
    });
    const Ns lag = w.begin - binding.satisfied;
    const bool shared = (lag > kLongestGap || (graph && lag > kLongestGraphGap)) && share(i, binding.satisfied);
    if (shared) binding = {w.begin, Cause::kShare, kNone, w.begin};
    const bool held = s_.held_by_missing_work(w);
    const bool unexplained = !shared && !held && lag > kOutlier && !is_queued_behind_border(i, call);
    if (unexplained) {
      ++s_.graph.notes.unexplained_lags;
      s_.graph.notes.unexplained_time += lag;
    }
    // What the binding constraint keeps of its own distance.
    const bool own_lag = s_.options.device_gaps && !held && !(unexplained && s_.options.strict);

    for (const Constraint& c : all) {
      if (c.cause == Cause::kLaunch) continue;
      const Ns own = w.begin - c.satisfied;
      Ns distance = std::min(usual_gap(s_.gpu(c.source), w), own);
      if (c.cause == binding.cause && c.source == binding.source && own_lag) distance = own;
      if (c.cause == Cause::kStream) {
        s_.graph.lane_lag[work.task] = distance;
      } else {
        s_.depend(s_.works[c.source].task, work.task, distance, DependencyKind::kStreamWait);
      }
    }
    bool launch_bound = binding.cause == Cause::kLaunch;
    if (work.previous == kNone) {
      // The first task of its stream: in a row of steps it follows the last one of the step before.
      s_.graph.lane_lag[work.task] = kUsualGap;
      if (s_.periodic && is_queued_behind_border(i, call)) {
        launch_bound = false;
        s_.graph.lane_lag[work.task] = w.begin - s_.index.work[w.before].end;
      }
    }
    if (s_.without(DependencyKind::kLaunch)) return;
    const std::uint32_t from = s_.graph.launch[work.task].value;
    const bool blocking = s_.wait_task[w.call - s_.first_call] != kNone;
    if (graph) {
      s_.depend(from, work.task, head_begin - call.release, DependencyKind::kLaunch, 0);
    } else if (blocking) {
      // A blocking copy's call lasts until the copy is done: its launch is counted from the call's release.
      const Ns own = std::max<Ns>(0, w.begin - call.release);
      s_.depend(from, work.task, launch_bound ? own : std::min(own, kLongestGap), DependencyKind::kLaunch, 0);
    } else {
      const Ns own = w.begin - call.end;
      s_.depend(from, work.task, launch_bound && own_lag ? own : std::min(latency_, own), DependencyKind::kLaunch);
    }
  }

  // The stream was still busy with work of the step before when this one was launched.
  [[nodiscard]] bool is_queued_behind_border(std::uint32_t i, const Timing& call) const {
    const GpuWork& w = s_.gpu(i);
    if (!s_.periodic || s_.works[i].previous != kNone || w.before == kNone) return false;
    return s_.index.work[w.before].end + kUsualGap >= call.end + latency_;
  }

  // Work from before the step keeps its place; work whose launch is unknown follows its stream as it did.
  void place_border(std::uint32_t i) {
    const StepWork& work = s_.works[i];
    const GpuWork& w = s_.gpu(i);
    const auto keep_place = [&] {
      if (s_.without(DependencyKind::kBorder)) return;
      // Where all waited for work that is not in the file, places count from its end.
      const Ns from = s_.held_by_missing_work(w) ? s_.missing_until : s_.begin;
      s_.depend(0, work.task, std::max<Ns>(0, w.begin - from), DependencyKind::kBorder);
    };
    if (work.border && w.call != kNone) {
      keep_place();
      s_.graph.lane_lag[work.task] = 0;
      return;
    }
    if (work.previous == kNone) {
      keep_place();
      s_.graph.lane_lag[work.task] = w.before == kNone ? 0 : std::max<Ns>(0, w.begin - s_.index.work[w.before].end);
      return;
    }
    s_.graph.lane_lag[work.task] = w.begin - s_.gpu(work.previous).end;
    for (const std::uint32_t x : work.waits) s_.depend(s_.works[x].task, work.task, 0, DependencyKind::kStreamWait);
  }

  // The task of another stream that made room for this one, if there is one.
  bool share(std::uint32_t i, Ns satisfied) {
    if (s_.without(DependencyKind::kShare)) return false;
    const GpuWork& w = s_.gpu(i);
    std::uint32_t source = kNone;
    std::uint32_t point = kWhole;
    // One that had just ended …
    auto it = std::upper_bound(by_end_.begin(), by_end_.end(), w.begin,
                               [&](Ns t, std::uint32_t x) { return t < s_.gpu(x).end; });
    while (it != by_end_.begin() && source == kNone) {
      const GpuWork& x = s_.gpu(*--it);
      if (x.end < w.begin - kLongestGap || x.end <= satisfied) break;
      if (x.lane != w.lane && x.begin < w.begin) source = *it;
    }
    // … or one that fills the device and had reached its last wave.
    for (std::size_t r = running_.size(); r-- > 0 && source == kNone;) {
      const std::uint32_t j = running_[r];
      const GpuWork& x = s_.gpu(j);
      if (x.lane == w.lane || x.begin >= w.begin - 1 || x.waves < 0.95F) continue;
      const double fraction = static_cast<double>(w.begin - x.begin) / static_cast<double>(x.end - x.begin);
      const double last_wave =
          x.waves > 1.05F ? std::max(0.3, 1 - 1 / std::ceil(static_cast<double>(x.waves)) - 0.1) : 0.8;
      if (fraction >= last_wave) {
        source = j;
        point = static_cast<std::uint32_t>(fraction * kWhole);
      }
    }
    // … or a collective launched before this one that had just begun: a part of a GPU has few hardware queues, and work of
    // streams that share one starts in the order of its launches.
    if (source == kNone) {
      source = collective_ahead(i);
      if (source != kNone) point = 0;
    }
    if (source == kNone) return false;
    const GpuWork& x = s_.gpu(source);
    const bool graph = w.group > 1;
    SoftDependency soft;
    soft.from = TaskId{s_.works[source].task};
    soft.point = point;
    const Ns cost = s_.graph.cost[s_.works[source].task];
    soft.lag = w.begin - (x.end - cost + point_in(cost, point));
    // A small kernel that had just ended is a dependency the trace does not name, and stays one.
    const bool certain = graph || point == 0 || (point == kWhole && x.waves < 0.5F);
    soft.slack = certain ? kForever : std::max<Ns>(0, x.begin - satisfied) + kShareSlack;
    s_.graph.soft[s_.works[i].task] = static_cast<std::uint32_t>(s_.graph.soft_dependencies.size());
    s_.graph.soft_dependencies.push_back(soft);
    return true;
  }

  [[nodiscard]] std::uint32_t collective_ahead(std::uint32_t i) const {
    const GpuWork& w = s_.gpu(i);
    for (std::uint32_t j = i; j > 0; --j) {
      const GpuWork& x = s_.gpu(j - 1);
      if (x.begin < w.begin - kLongestGap) break;
      if (x.lane == w.lane || x.call == kNone || s_.graph.kind[s_.works[j - 1].task] != TaskKind::kCollective) continue;
      if (s_.index.calls[x.call].begin < s_.index.calls[w.call].begin) return j - 1;
    }
    return kNone;
  }

  StepState& s_;
  std::unordered_map<std::uint64_t, Ns> gaps_;
  Ns latency_ = kUsualLatency;
  std::vector<std::uint32_t> running_;  // StepWorks that run when the one at hand begins, by begin
  std::vector<std::uint32_t> by_end_;
};

}  // namespace

void set_device_lags(StepState& s) { LagRule(s).run(); }

}  // namespace foretrace::graph
