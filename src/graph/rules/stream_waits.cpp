// GPU -> GPU across streams: an event recorded on one stream, a wait for it on another. Newer profilers often name neither
// the record a wait waits for nor the stream a record was made on. What they leave is the order of calls on a host
// thread, and programs use few patterns (libraries fork work over streams and join it again):
//
//   fork   a record directly followed by waits: they wait for the stream of the record
//   join   record, wait on the origin, again and again: the origin waits for every forked stream
//   inner  launches between record and wait: the latest record of every other stream since the fork
//   a collective is waited for in the order of launch, once
//
// Every inference is checked against the times. A source that ended after its target began is refuted and dropped; a wait for
// a collective was then for an earlier one, if that ended just then.

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>

#include "graph/step_state.hpp"
#include "trace/device_times.hpp"

namespace foretrace::graph {

namespace {

using StreamKey = std::uint32_t;  // trace lane of a stream

class WaitResolver {
 public:
  explicit WaitResolver(StepState& s) : s_(s) {}

  void run() {
    find_targets();
    for (const std::uint32_t w : s_.earlier) last_[s_.index.work[w].lane] = {w, true};
    for (std::uint32_t c = s_.first_call; c < s_.last_call; ++c) {
      if (s_.task_of_call(c) == kNone) continue;
      const Call& call = s_.index.calls[c];
      HostThread& thread = threads_[call.lane];
      switch (call.role) {
        case CallRole::kLaunch:
          launch(call, thread);
          break;
        case CallRole::kRecord:
          thread.recorded = thread.current;
          thread.launched_since_record = false;
          if (thread.current != kNone) thread.records[thread.current] = last_on(thread.current);
          break;
        case CallRole::kStreamWait:
          wait(c, call, thread);
          break;
        default:
          break;
      }
    }
  }

 private:
  struct HostThread {
    StreamKey current = kNone;   // stream of the last launch
    StreamKey recorded = kNone;  // stream of the last record
    bool launched_since_record = false;
    bool launched_since_fork = true;
    StreamKey origin = kNone;
    std::vector<StreamKey> group;         // streams of the current fork
    std::map<StreamKey, Source> records;  // latest recorded work per stream since the fork
  };
  struct Target {
    std::uint32_t work = kNone;
    StreamKey stream = kNone;
    bool known = false;  // a CUPTI row names the stream
  };

  [[nodiscard]] Source last_on(StreamKey stream) const {
    const auto it = last_.find(stream);
    return it == last_.end() ? Source{} : it->second;
  }

  // The stream of each wait, and the work launched next on it: what the wait holds back.
  void find_targets() {
    targets_.resize(s_.last_call - s_.first_call);
    std::unordered_map<StreamKey, std::uint32_t> next_on_stream;
    std::unordered_map<std::uint32_t, std::uint32_t> next_of_thread;
    for (std::uint32_t c = s_.last_call; c-- > s_.first_call;) {
      const Call& call = s_.index.calls[c];
      if (s_.task_of_call(c) == kNone) continue;
      if (call.role == CallRole::kStreamWait) {
        Target& t = targets_[c - s_.first_call];
        const trace::SyncInfo* row =
            call.sync_row == kNone ? nullptr : s_.trace().args.sync(s_.trace().events.args[call.sync_row]);
        if (row != nullptr && row->stream >= 0) {
          t.known = true;
          t.stream = s_.index.stream_lane(row->device, row->stream);
          const auto it = next_on_stream.find(t.stream);
          if (it != next_on_stream.end()) t.work = it->second;
        } else if (!s_.index.has_wait_rows) {
          // No rows in the whole trace: the thread waits on the stream it launches on next.
          const auto it = next_of_thread.find(call.lane);
          if (it != next_of_thread.end()) {
            t.work = it->second;
            t.stream = s_.gpu(t.work).lane;
          }
        }
      } else if (call.role == CallRole::kLaunch) {
        for (std::uint32_t i = call.works; i-- > 0;) {
          const std::uint32_t w = s_.step_work_of(s_.index.work_by_call[call.first_work + i]);
          if (w == kNone) continue;
          next_on_stream[s_.gpu(w).lane] = w;
          next_of_thread[call.lane] = w;
        }
      }
    }
  }

  void launch(const Call& call, HostThread& thread) {
    for (std::uint32_t i = 0; i < call.works; ++i) {
      const std::uint32_t w = s_.step_work_of(s_.index.work_by_call[call.first_work + i]);
      if (w == kNone) continue;
      const GpuWork& work = s_.gpu(w);
      last_[work.lane] = {w};
      recent_.push_back({w});
      if (recent_.size() > kMostStreams) recent_.pop_front();
      if (work.collective) open_collectives_.push_back({w});
      thread.current = work.lane;
    }
    thread.launched_since_record = true;
    thread.launched_since_fork = true;
  }

  Source next_collective() {
    if (open_collectives_.empty()) return {};
    const Source w = open_collectives_.front();
    open_collectives_.pop_front();
    return w;
  }

  [[nodiscard]] bool is_collective(Source w) const { return w.valid() && s_.gpu(w).collective; }

  const std::unordered_map<std::int64_t, Ns>& records() {
    if (!record_times_) {
      record_times_.emplace();
      for (std::uint32_t c = s_.first_call; c < s_.last_call; ++c) {
        const Call& call = s_.index.calls[c];
        if (call.role == CallRole::kRecord) (*record_times_)[s_.trace().events.correlation[call.event]] = call.begin;
      }
    }
    return *record_times_;
  }

  // The record is named by the trace itself, or at least its stream is.
  bool resolved(const Call& call, const Target& t, std::vector<Source>& sources) {
    if (call.sync_row == kNone) return false;
    const trace::SyncInfo* row = s_.trace().args.sync(s_.trace().events.args[call.sync_row]);
    if (row == nullptr || row->wait_on_stream < 0) return false;
    const StreamKey from = s_.index.stream_lane(row->device, row->wait_on_stream);
    if (from == kNone || from == t.stream) return true;  // a stream without kernels, or its own: nothing to wait for
    const trace::SyncIds* ids = s_.trace().sync(call.sync_row);
    Ns recorded = call.begin;
    if (ids != nullptr && ids->record_correlation > 0) {
      const auto it = records().find(ids->record_correlation);
      if (it != records().end()) recorded = it->second;
    }
    // The last work launched on that stream before the record.
    const auto& stream = s_.index.launch_order[from];
    auto behind = std::upper_bound(stream.begin(), stream.end(), recorded,
                                   [&](Ns at, std::uint32_t w) { return at < s_.index.work[w].issued; });
    while (behind != stream.begin()) {
      --behind;
      if (*behind < s_.first_work) break;
      if (const std::uint32_t mine = s_.step_work_of(*behind); mine != kNone) {
        sources.push_back({mine});
        break;
      }
      if (s_.periodic && s_.index.work[*behind].issued < s_.begin) {
        if (s_.index.work[*behind].end > s_.begin) sources.push_back({*behind, true});
        break;
      }
    }
    return true;
  }

  void wait(std::uint32_t c, const Call& call, HostThread& thread) {
    const Target& t = targets_[c - s_.first_call];
    if (!t.known && t.work == kNone) return;  // a stream without kernels
    std::vector<Source> sources;
    const bool direct = !thread.launched_since_record && thread.recorded != kNone && t.known;
    const bool named = resolved(call, t, sources);
    if (named) {
      // nothing to infer
    } else if (direct && t.stream == thread.origin && !thread.group.empty()) {
      join(thread, sources);
      thread.current = t.stream;
    } else if (direct) {
      fork(thread, t.stream, sources);
    } else if (t.known) {
      const bool in_group = std::find(thread.group.begin(), thread.group.end(), t.stream) != thread.group.end();
      if (!open_collectives_.empty() && !in_group) {
        sources.push_back(next_collective());
      } else {
        for (const auto& [stream, w] : thread.records) {
          if (stream != t.stream && !is_collective(w)) sources.push_back(w);
        }
      }
    } else {
      // Of very many streams, those that got work last.
      if (last_.size() > kMostStreams) {
        for (const Source w : recent_) {
          if (s_.gpu(w).lane != t.stream) sources.push_back(w);
        }
      } else {
        for (const auto& [stream, w] : last_) {
          if (stream != t.stream) sources.push_back(w);
        }
      }
    }
    if (t.work == kNone) return;
    for (const Source w : sources) connect(w, t.work, named);
  }

  void join(HostThread& thread, std::vector<Source>& sources) {
    std::vector<Source> all;
    for (const StreamKey y : thread.group) all.push_back(last_on(y));
    all.push_back(last_on(thread.recorded));
    bool collective = false;
    for (const Source w : all) {
      if (is_collective(w)) {
        collective = true;
      } else {
        sources.push_back(w);
      }
    }
    if (collective) sources.push_back(next_collective());
  }

  void fork(HostThread& thread, StreamKey stream, std::vector<Source>& sources) {
    if (thread.launched_since_fork || thread.origin != thread.recorded) {
      thread.group.clear();
      thread.origin = thread.recorded;
      thread.records.clear();
      thread.records[thread.recorded] = last_on(thread.recorded);
    }
    thread.launched_since_fork = false;
    if (stream != thread.recorded) thread.group.push_back(stream);
    sources.push_back(last_on(thread.recorded));
  }

  void connect(Source source, std::uint32_t target, bool named) {
    if (!source.valid() || source == Source{target}) return;
    const GpuWork& to = s_.gpu(target);
    if (s_.gpu(source).lane == to.lane) return;
    if (s_.gpu(source).end > to.begin) {
      if (!named) source = ended_just_before(source, to);
      if (named || !source.valid()) {
        ++s_.graph.notes.refuted_waits;
        return;
      }
    }
    auto& waits = s_.works[target].waits;
    if (std::find(waits.begin(), waits.end(), source) == waits.end()) waits.push_back(source);
  }

  // The collective in front of `source` on its stream that ended when `to` began: programs launch the next one before they
  // wait for the one before it.
  [[nodiscard]] Source ended_just_before(Source source, const GpuWork& to) const {
    const std::uint32_t first = source.earlier ? source.id : s_.works[source.id].work;
    std::uint32_t w = first == kNone ? kNone : s_.index.work[first].before;
    if (!is_collective(source)) return {};
    while (w != kNone && s_.index.work[w].end > to.begin) w = s_.index.work[w].before;
    if (w == kNone || !s_.index.work[w].collective || s_.index.work[w].end + trace::kLongestWake < to.begin) return {};
    if (const std::uint32_t mine = s_.step_work_of(w); mine != kNone) return {mine};
    return s_.periodic && s_.index.work[w].issued < s_.begin ? Source{w, true} : Source{};
  }

  static constexpr std::size_t kMostStreams = 128;  // as many kernels as a GPU runs at once

  StepState& s_;
  std::deque<Source> recent_;                                         // what was launched last
  std::optional<std::unordered_map<std::int64_t, Ns>> record_times_;  // by correlation id
  std::unordered_map<std::uint32_t, HostThread> threads_;
  std::map<StreamKey, Source> last_;  // ordered: the inference must not depend on hashing
  std::deque<Source> open_collectives_;
  std::vector<Target> targets_;
};

}  // namespace

void resolve_stream_waits(StepState& s) {
  if (s.without(DependencyKind::kStreamWait) || s.works.empty()) return;
  WaitResolver(s).run();
}

}  // namespace foretrace::graph
