// GPU -> CPU: calls that wait for work. Their cost is what remains when the wait is taken out; the wait itself comes from
// the simulation. Covered: stream, device and event synchronisation, and copies to or from pageable memory, which block.

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/statistics.hpp"
#include "graph/step_state.hpp"

namespace foretrace::graph {

namespace {

struct SyncCall {
  std::uint32_t call;  // index into calls
  std::vector<Source> sources;
  Ns last_end = INT64_MIN;
  bool waited = false;
};

class SyncRule {
 public:
  explicit SyncRule(StepState& s) : s_(s) {}

  void run() {
    collect();
    std::vector<Ns> returns;
    std::vector<Ns> idle;
    for (const SyncCall& sync : syncs_) {
      const Call& c = s_.index.calls[sync.call];
      if (sync.waited) {
        returns.push_back(c.end - sync.last_end);
      } else {
        idle.push_back(c.end - c.begin);
      }
    }
    const Ns typical_return = returns.empty() ? s_.latencies.sync_return : median(returns);
    const Ns typical_cost = idle.empty() ? s_.latencies.sync_call : median(idle);
    for (const SyncCall& sync : syncs_) connect(sync, typical_cost, typical_return);
  }

 private:
  // Work each blocking call covers: what had been launched before it.
  void collect() {
    LastOnStreams last;
    for (std::uint32_t i = 0; i < s_.works.size(); ++i) {
      if (s_.works[i].border) last[s_.gpu(i).lane] = {i};
    }
    for (const std::uint32_t w : s_.earlier) last[s_.index.work[w].lane] = {w, true};
    for (std::uint32_t c = s_.first_call; c < s_.last_call; ++c) {
      const Call& call = s_.index.calls[c];
      if (s_.task_of_call(c) == kNone) continue;
      std::vector<Source> covered;
      if (call.role == CallRole::kLaunch) {
        for (std::uint32_t i = 0; i < call.works; ++i) {
          const std::uint32_t w = s_.step_work_of(s_.index.work_by_call[call.first_work + i]);
          if (w == kNone) continue;
          last[s_.gpu(w).lane] = {w};
          news_.push_back(s_.gpu(w).lane);
        }
        if (s_.wait_task[c - s_.first_call] == kNone) continue;
        covered.push_back({s_.step_work_of(s_.index.work_by_call[call.first_work])});
      } else if (s_.wait_task[c - s_.first_call] != kNone) {
        if (const trace::SyncInfo* row = row_of(call); call.role == CallRole::kStreamSync && row != nullptr) {
          const auto it = last.find(s_.index.stream_lane(row->device, row->stream));
          if (it != last.end()) covered.push_back(it->second);
        } else {
          covered = last.size() > kMostStreams ? since_last_sync(call, last) : all_of(last);
        }
      } else {
        continue;
      }
      add(c, call, covered);
    }
  }

  using LastOnStreams = std::map<std::uint32_t, Source>;  // by trace lane

  static std::vector<Source> all_of(const LastOnStreams& last) {
    std::vector<Source> all;
    for (const auto& [lane, w] : last) all.push_back(w);
    return all;
  }

  // Where there are very many streams: those that got work since the thread waited for all of them the last time, those that were
  // still busy then, and the one that had ended last, which stands for all others.
  std::vector<Source> since_last_sync(const Call& call, const LastOnStreams& last) {
    const auto [it, first] = waited_.try_emplace(call.lane);
    Waited& waited = it->second;
    std::vector<Source> sources;
    if (first || news_.size() - waited.news > last.size()) {
      sources = all_of(last);
    } else {
      std::vector<std::uint32_t> lanes = waited.busy;
      lanes.insert(lanes.end(), news_.begin() + static_cast<std::ptrdiff_t>(waited.news), news_.end());
      std::sort(lanes.begin(), lanes.end());
      lanes.erase(std::unique(lanes.begin(), lanes.end()), lanes.end());
      for (const std::uint32_t lane : lanes) sources.push_back(last.at(lane));
      if (waited.latest.valid()) sources.push_back(waited.latest);
    }
    waited.news = news_.size();
    waited.busy.clear();
    for (const Source w : sources) {
      if (s_.gpu(w).end > call.end) {
        waited.busy.push_back(s_.gpu(w).lane);
      } else if (!waited.latest.valid() || s_.gpu(w).end > s_.gpu(waited.latest).end) {
        waited.latest = w;
      }
    }
    return sources;
  }

  void add(std::uint32_t c, const Call& call, const std::vector<Source>& covered) {
    SyncCall sync{c, {}};
    for (const Source w : covered) {
      // Work that ended after the call returned was not waited for, whatever the call's name says.
      if (!w.valid() || s_.gpu(w).end > call.end) continue;
      sync.sources.push_back(w);
      sync.last_end = std::max(sync.last_end, s_.gpu(w).end);
    }
    if (sync.sources.empty()) return;
    sync.waited = sync.last_end > call.begin || call.role == CallRole::kLaunch;
    // An event is one point of one stream: the latest that fits, and none when the call did not wait.
    if (call.role == CallRole::kEventSync) {
      if (!sync.waited) return;
      std::erase_if(sync.sources, [&](Source w) { return s_.gpu(w).end != sync.last_end; });
    }
    syncs_.push_back(std::move(sync));
  }

  // The row that names the stream of a synchronisation.
  [[nodiscard]] const trace::SyncInfo* row_of(const Call& call) const {
    if (call.sync_row == kNone) return nullptr;
    const trace::SyncInfo* row = s_.trace().args.sync(s_.trace().events.args[call.sync_row]);
    return row == nullptr || row->stream < 0 ? nullptr : row;
  }

  void connect(const SyncCall& sync, Ns typical_cost, Ns typical_return) {
    const Call& call = s_.index.calls[sync.call];
    const std::uint32_t task = s_.call_task[sync.call - s_.first_call];
    const std::uint32_t wait = s_.wait_task[sync.call - s_.first_call];
    // A blocking copy must be launched before it can be waited for: its call's own cost ends where the copy begins, less
    // the time the copy waited for the GPU.
    if (sync.waited) {
      Ns own = std::min(s_.graph.cost[task], typical_cost);
      if (call.role == CallRole::kLaunch) {
        const StepWork& copy = s_.works[sync.sources.front().id];
        const Ns free = std::max(call.begin + call.blocked, copy.free);
        own = std::clamp<Ns>(s_.gpu(sync.sources.front()).begin - free, 0, s_.graph.cost[task]);
      }
      s_.graph.cost[task] = own;
    }
    if (s_.without(DependencyKind::kSync)) return;
    for (const Source w : sync.sources) {
      const Ns lag = sync.waited ? call.end - sync.last_end : std::min(typical_return, call.end - s_.gpu(w).end);
      s_.depend(w, wait, lag, DependencyKind::kSync);
    }
  }

  // More streams than a GPU runs kernels at once: no program needs them, and every call would wait for each of them.
  static constexpr std::size_t kMostStreams = 128;
  struct Waited {
    std::size_t news = 0;             // how many it has seen
    std::vector<std::uint32_t> busy;  // streams it did not wait for, as they went on
    Source latest;
  };

  StepState& s_;
  std::vector<SyncCall> syncs_;
  std::vector<std::uint32_t> news_;                   // streams, in the order in which they got work
  std::unordered_map<std::uint32_t, Waited> waited_;  // by trace lane of a thread
};

}  // namespace

void add_syncs(StepState& s) { SyncRule(s).run(); }

}  // namespace foretrace::graph
