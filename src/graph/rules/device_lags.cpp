// Why each GPU task started when it did. A task has several constraints: its launch, the task before it on its stream,
// the work its stream waited for. The one that was satisfied last is binding; the distance from it to the task's start is
// the device's own (a gap between kernels, a launch's latency) and is kept, for this task, as measured. The others get
// the typical distance, so that any of them can become binding in a what-if.
//
// A binding distance too long for a device gap has another cause: the GPU was full. Then the task waits for the task of
// another stream that made room, by ending or by reaching its last wave of blocks; or it stood in one hardware queue behind
// a collective that began late.

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "base/statistics.hpp"
#include "graph/rules/held_back.hpp"
#include "graph/step_state.hpp"
#include "trace/device_times.hpp"

namespace foretrace::graph {

namespace {

// A task that held the device in the trace may come much later in a changed graph; then it holds nothing.
constexpr Ns kShareSlack = 500 * kNsPerUs;
constexpr Ns kForever = INT64_MAX / 4;  // sums of it do not overflow
constexpr std::size_t kEnoughSamples = 3;

class LagRule {
 public:
  explicit LagRule(StepState& s) : s_(s), latency_(s.latencies.launch_latency), held_(s) {}

  void run() {
    sample();
    full_since_.resize(s_.works.size());
    for (std::uint32_t i = 0; i < s_.works.size(); ++i) {
      held_.advance_to(i);
      bind(i);
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

  // Keys of the tables of typical gaps, most special first.
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
      if (idle && w.group == 1 && w.begin - call.end < trace::kLongestLatency) latencies.push_back(w.begin - call.end);
    }
    if (latencies.size() >= kEnoughSamples) latency_ = median(latencies);

    // Gaps of tasks that only the one in front can have held back: their launch had come through.
    std::unordered_map<std::uint64_t, std::vector<Ns>> samples;
    for (std::uint32_t i = 0; i < s_.works.size(); ++i) {
      const std::uint32_t p = s_.works[i].previous;
      if (p == kNone || !launched_here(i)) continue;
      const GpuWork& w = s_.gpu(i);
      const Ns gap = w.begin - s_.gpu(p).end;
      if (s_.gpu(p).end < timing(w).end + std::max<Ns>(0, latency_) || gap < 0 || gap > trace::kLongestLatency)
        continue;
      std::uint64_t k[4];
      keys(s_.gpu(p), w, k);
      for (const std::uint64_t one : k) samples[one].push_back(gap);
    }
    for (auto& [k, list] : samples) {
      if (list.size() >= kEnoughSamples) gaps_[k] = median(list);
    }
  }

  [[nodiscard]] Ns typical_gap(const GpuWork& before, const GpuWork& w) const {
    if (!s_.options.device_gaps) return 0;
    std::uint64_t k[4];
    keys(before, w, k);
    for (const std::uint64_t one : k) {
      if (const auto it = gaps_.find(one); it != gaps_.end()) return it->second;
    }
    return s_.latencies.kernel_gap;
  }

  struct Constraint {
    Ns nominal;  // when it would be satisfied with the typical distance
    Cause cause;
    Source source;  // none for the launch
    Ns satisfied;   // when its source was done
  };

  // How the launch call holds a task: a point of the call, and the typical distance from there.
  struct LaunchPoint {
    std::uint32_t point = kWhole;
    Ns at = 0;       // when the call reached it
    Ns typical = 0;  // to the task's start
    bool blocking = false;
  };
  [[nodiscard]] LaunchPoint launch_point(std::uint32_t i) const {
    const GpuWork& w = s_.gpu(i);
    const Timing call = timing(w);
    // A blocking copy's call lasts until the copy is done: its launch is counted from the call's release.
    if (s_.wait_task[w.call - s_.first_call] != kNone) return {0, call.release, trace::kLongestGap, true};
    const Ns begin = head_of(w).begin;
    if (!s_.index.calls[w.call].graph || begin >= call.end || call.end <= call.release) {
      return {kWhole, call.end, latency_};
    }
    // A graph begins to run while its call still hands over the rest of it.
    const double done = static_cast<double>(std::max<Ns>(0, begin - std::max<Ns>(0, latency_) - call.release)) /
                        static_cast<double>(call.end - call.release);
    const auto point = static_cast<std::uint32_t>(done * kWhole);
    return {point, call.release + point_in(call.end - call.release, point), std::max<Ns>(0, latency_)};
  }
  [[nodiscard]] const GpuWork& head_of(const GpuWork& w) const {
    return s_.index.work[s_.index.work_by_call[s_.index.calls[w.call].first_work]];
  }

  void bind(std::uint32_t i) {
    StepWork& work = s_.works[i];
    const GpuWork& w = s_.gpu(i);
    full_since_[i] = w.begin;
    const bool launched = launched_here(i);
    if (!launched && (work.border || work.previous == kNone)) {
      place_border(i);
      return;
    }
    const bool graph = w.group > 1;
    const bool is_head = !graph || (!w.unrecorded && &head_of(w) == &w);
    const LaunchPoint launch = launched ? launch_point(i) : LaunchPoint{};

    std::vector<Constraint> all;
    if (launched && is_head) {
      all.push_back({std::min(launch.at + launch.typical, w.begin), Cause::kLaunch, {}, launch.at});
    } else if (launched) {
      all.push_back({std::min(head_of(w).begin, w.begin), Cause::kLaunch, {}, std::min(head_of(w).begin, w.begin)});
    }
    const auto add = [&](Cause cause, Source source) {
      const GpuWork& p = s_.gpu(source);
      all.push_back({std::min(p.end + typical_gap(p, w), w.begin), cause, source, p.end});
    };
    if (work.previous != kNone) {
      add(Cause::kStream, {work.previous});
    } else if (s_.periodic && w.before != kNone) {
      add(Cause::kBorder, {w.before, true});
    }
    for (const Source x : work.waits) add(Cause::kWait, x);
    Constraint binding = *std::max_element(all.begin(), all.end(), [](const Constraint& a, const Constraint& b) {
      return std::tuple(a.nominal, a.cause) < std::tuple(b.nominal, b.cause);
    });
    const Ns lag = w.begin - binding.satisfied;
    const bool shared = lag > trace::kLongestGap && share(i, binding.satisfied, lag > trace::kLongestWake);
    if (shared) binding = {w.begin, Cause::kShare, {}, w.begin};
    const bool called = !shared && !launched && lag > trace::kLongestLatency && infer_launch(i);
    if (called) binding = {w.begin, Cause::kLaunch, {}, w.begin};
    if (binding.cause != Cause::kLaunch) work.free = shared ? w.begin - s_.latencies.kernel_gap : binding.satisfied;
    const bool held = binding.cause == Cause::kLaunch && s_.held_by_missing_work(w);
    const bool late = !shared && !called && !held && lag > trace::kLongestLatency;
    const bool startup = late && s_.held_by_startup(binding.satisfied, w.begin);
    const bool unexplained = late && !startup;
    if (unexplained) {
      ++s_.graph.notes.unexplained_lags;
      s_.graph.notes.unexplained_time += lag;
    }
    // What the binding constraint keeps of its own distance.
    const bool own_lag = s_.options.device_gaps && !held && !startup && !(unexplained && s_.options.strict);

    // The first task of its stream follows the last one of the step before, in a row of steps.
    if (work.previous == kNone) s_.graph.lane_lag[work.task] = s_.latencies.kernel_gap;
    for (const Constraint& c : all) {
      if (c.cause == Cause::kLaunch) continue;
      const Ns own = w.begin - c.satisfied;
      Ns distance = std::min(typical_gap(s_.gpu(c.source), w), own);
      if (c.cause == binding.cause && c.source == binding.source && own_lag) distance = own;
      if (c.cause == Cause::kWait) {
        s_.depend(c.source, work.task, distance, DependencyKind::kStreamWait);
      } else {
        s_.graph.lane_lag[work.task] = distance;
      }
    }
    if (!launched || s_.without(DependencyKind::kLaunch)) return;
    const bool launch_bound = binding.cause == Cause::kLaunch && is_head;
    const std::uint32_t from = s_.graph.launch[work.task].value;
    if (launch_bound && launch.blocking) {
      // Until the copy begins, its call works (it fills the staging buffer): that is the call's cost (syncs.cpp).
      s_.depend(from, work.task, 0, DependencyKind::kLaunch);
      return;
    }
    const Ns own = w.begin - launch.at;
    s_.depend(from, work.task, launch_bound && own_lag ? own : std::min(launch.typical, own), DependencyKind::kLaunch,
              launch.point);
  }

  // Work from before the step keeps its place; so does the first on a stream whose launches the trace does not hold.
  void place_border(std::uint32_t i) {
    const StepWork& work = s_.works[i];
    const GpuWork& w = s_.gpu(i);
    if (follows_unlaunched(i)) {
      s_.graph.lane_lag[work.task] = std::max<Ns>(0, w.begin - s_.gpu(work.previous).end);
      return;
    }
    if (work.border || !infer_launch(i)) {
      s_.graph.notes.border_tasks += work.border ? 0U : 1U;
      // Where all waited for work that is not in the file, places count from its end.
      const Ns from = s_.held_by_missing_work(w) ? s_.missing_until : s_.begin;
      if (!s_.without(DependencyKind::kBorder))
        s_.depend(0, work.task, std::max<Ns>(0, w.begin - from), DependencyKind::kBorder);
    }
    s_.graph.lane_lag[work.task] =
        work.previous != kNone || w.before == kNone
            ? 0
            : std::clamp<Ns>(w.begin - s_.index.work[w.before].end, 0, s_.latencies.kernel_gap);
  }

  // All of this was launched before the recording began, so that only the stream's order held it: a task right behind
  // another such task follows it, wherever that goes.
  [[nodiscard]] bool follows_unlaunched(std::uint32_t i) const {
    const StepWork& work = s_.works[i];
    if (!work.border || s_.gpu(i).call != kNone || work.previous == kNone) return false;
    const GpuWork& before = s_.gpu(work.previous);
    return s_.works[work.previous].border && before.call == kNone &&
           s_.gpu(i).begin - before.end <= trace::kLongestLatency;
  }

  // Work without a recorded launch that started late, with nothing on the GPU to hold it: the CPU did, at a time at which it
  // can have launched it, between the launches before and behind it on the stream.
  bool infer_launch(std::uint32_t i) {
    if (s_.without(DependencyKind::kLaunch)) return false;
    const StepWork& work = s_.works[i];
    const GpuWork& w = s_.gpu(i);
    const Ns when = w.begin - std::max<Ns>(0, latency_);
    if (w.issued == INT64_MIN || when < w.issued || when > w.issued_before || when < s_.begin) return false;
    const std::uint32_t before = launched_before(w);
    if (before == kNone) return false;
    const std::uint32_t lane = lane_of_thread(s_.index.calls[s_.index.work[before].call].lane);
    if (lane == kNone) return false;
    const std::uint32_t task = s_.task_before(lane, when - s_.begin);
    if (task == kNone) return false;
    const Ns cost = s_.graph.cost[task];
    const Ns inside = std::min(when - s_.begin - s_.graph.measured[task], cost);
    const std::uint32_t point =
        cost == 0 ? kWhole
                  : static_cast<std::uint32_t>(static_cast<double>(inside) / static_cast<double>(cost) * kWhole);
    const Ns lag = w.begin - s_.begin - s_.graph.measured[task] - point_in(cost, point);
    if (lag > trace::kLongestWake) return false;  // the thread did nothing then
    s_.depend(task, work.task, lag, DependencyKind::kLaunch, point);
    ++s_.graph.notes.inferred_launches;
    return true;
  }

  // The last work before this one on its stream whose launch is recorded. Asked for in order of time, so that each step back is
  // taken once.
  std::uint32_t launched_before(const GpuWork& w) {
    Asked& asked = asked_[w.lane];
    std::uint32_t at = w.before;
    while (at != kNone && at != asked.from && s_.index.work[at].call == kNone) at = s_.index.work[at].before;
    asked = {w.before, at == asked.from ? asked.found : at};
    return asked.found;
  }

  // The graph's lane of a thread; kNone when it has none.
  std::uint32_t lane_of_thread(std::uint32_t thread) {
    if (lanes_.empty()) {
      for (std::uint32_t l = 0; l < s_.graph.lanes.size(); ++l)
        lanes_.try_emplace(s_.graph.lanes[l].trace_lane.value, l);
    }
    const auto it = lanes_.find(thread);
    return it == lanes_.end() ? kNone : it->second;
  }

  // Waits for the task of another stream that made room for this one, if there is one.
  bool share(std::uint32_t i, Ns satisfied, bool long_wait) {
    if (s_.without(DependencyKind::kShare)) return false;
    const Holder holder = held_.find(i, satisfied, long_wait);
    if (!holder.source.valid()) return false;
    const GpuWork& w = s_.gpu(i);
    const GpuWork& x = s_.gpu(holder.source);
    const std::uint32_t task = s_.works[i].task;
    if (holder.source.earlier) {
      const Ns reached = x.begin + point_in(x.end - x.begin, holder.point);
      return s_.depend(holder.source, task, w.begin - reached, DependencyKind::kStreamWait, holder.point);
    }
    const std::uint32_t from = s_.works[holder.source.id].task;
    SoftDependency soft;
    soft.from = TaskId{from};
    soft.point = holder.point;
    const Ns cost = s_.graph.cost[from];
    soft.lag = w.begin - (x.end - cost + point_in(cost, holder.point));
    // A queue of tasks, each let in by the one before it, that had filled the GPU before this one became ready: it waits for
    // all of them, however long they take.
    full_since_[i] = full_since_[holder.source.id];
    const bool queued = long_wait && full_since_[i] < x.begin && full_since_[i] <= satisfied;
    soft.slack = holder.certain || queued ? kForever : std::max<Ns>(0, x.begin - satisfied) + kShareSlack;
    s_.graph.soft[task] = static_cast<std::uint32_t>(s_.graph.soft_dependencies.size());
    s_.graph.soft_dependencies.push_back(soft);
    return true;
  }

  struct Asked {
    std::uint32_t from = kNone, found = kNone;
  };

  StepState& s_;
  std::unordered_map<std::uint32_t, Asked> asked_;          // by trace lane of a stream
  std::unordered_map<std::uint32_t, std::uint32_t> lanes_;  // trace lane -> lane
  std::unordered_map<std::uint64_t, Ns> gaps_;
  Ns latency_;
  std::vector<Ns> full_since_;  // by StepWork: since when tasks that let in one another, up to this one, filled the GPU
  HeldBack held_;
};

}  // namespace

void set_device_lags(StepState& s) { LagRule(s).run(); }

}  // namespace foretrace::graph
