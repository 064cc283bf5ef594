// GPU -> CPU: calls that wait for work. Their cost is what remains when the wait is taken out; the wait itself comes from
// the simulation. Covered: stream, device and event synchronisation, and copies to or from pageable memory, which block.

#include <algorithm>
#include <map>

#include "base/statistics.hpp"
#include "graph/step_state.hpp"
#include "trace/latencies.hpp"

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
    const Ns usual_return = returns.empty() ? trace::default_latencies().sync_return : median(returns);
    const Ns usual_cost = idle.empty() ? trace::default_latencies().sync_call : median(idle);
    for (const SyncCall& sync : syncs_) connect(sync, usual_cost, usual_return);
  }

 private:
  // Work each blocking call covers: what had been launched before it.
  void collect() {
    std::map<std::uint32_t, Source> last;  // by trace lane of a stream
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
          if (w != kNone) last[s_.gpu(w).lane] = {w};
        }
        if (s_.wait_task[c - s_.first_call] == kNone) continue;
        covered.push_back({s_.step_work_of(s_.index.work_by_call[call.first_work])});
      } else if (s_.wait_task[c - s_.first_call] != kNone) {
        if (const trace::SyncInfo* row = row_of(call); call.role == CallRole::kStreamSync && row != nullptr) {
          const auto it = last.find(s_.index.stream_lane(row->device, row->stream));
          if (it != last.end()) covered.push_back(it->second);
        } else {
          for (const auto& [lane, w] : last) covered.push_back(w);
        }
      } else {
        continue;
      }
      add(c, call, covered);
    }
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

  void connect(const SyncCall& sync, Ns usual_cost, Ns usual_return) {
    const Call& call = s_.index.calls[sync.call];
    const std::uint32_t task = s_.call_task[sync.call - s_.first_call];
    const std::uint32_t wait = s_.wait_task[sync.call - s_.first_call];
    // A blocking copy must be launched before it can be waited for: its call's own cost ends where the copy begins, less
    // the time the copy waited for the GPU.
    if (sync.waited) {
      Ns own = std::min(s_.graph.cost[task], usual_cost);
      if (call.role == CallRole::kLaunch) {
        const StepWork& copy = s_.works[sync.sources.front().id];
        const Ns free = std::max(call.begin + call.blocked, copy.free);
        own = std::clamp<Ns>(s_.gpu(sync.sources.front()).begin - free, 0, s_.graph.cost[task]);
      }
      s_.graph.cost[task] = own;
    }
    if (s_.without(DependencyKind::kSync)) return;
    for (const Source w : sync.sources) {
      const Ns lag = sync.waited ? call.end - sync.last_end : std::min(usual_return, call.end - s_.gpu(w).end);
      s_.depend(w, wait, lag, DependencyKind::kSync);
    }
  }

  StepState& s_;
  std::vector<SyncCall> syncs_;
};

}  // namespace

void add_syncs(StepState& s) { SyncRule(s).run(); }

}  // namespace foretrace::graph
