// GPU -> GPU across streams where the profile holds no event records at all (XLA's): a library call that spreads its kernels over
// streams of its own (cuDNN's FFT convolutions) makes them wait for what precedes the call, and what follows it wait for them.
// Which kernels belong together follows from the call that launched them:
//
//   home   the stream most of the launching thread's work runs on, some of the call's own included
//   fork   a kernel of another stream waits for the last one before it, in order of launch, on the home stream: the call
//          prepares its operands there
//   join   the next work of the home stream waits for the last kernel on each of the others
//
// As with events, a wait that the times contradict is dropped: its source ended after its target began. A fork is then from the work in
// front of that source, and a join is at the next work of the home stream.

#include <algorithm>
#include <map>

#include "graph/step_state.hpp"

namespace foretrace::graph {

namespace {

class LibraryStreams {
 public:
  explicit LibraryStreams(StepState& s) : s_(s) {}

  void run() {
    if (has_events()) return;
    std::map<std::uint32_t, std::vector<std::uint32_t>> of_thread;  // by trace lane: its works
    for (std::uint32_t i = 0; i < s_.works.size(); ++i) {
      const GpuWork& w = s_.gpu(i);
      if (!s_.works[i].border && w.call != kNone) of_thread[s_.index.calls[w.call].lane].push_back(i);
    }
    for (auto& [thread, works] : of_thread) {
      std::stable_sort(works.begin(), works.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return s_.gpu(a).issued < s_.gpu(b).issued; });
      follow(works);
    }
  }

 private:
  using Stream = std::uint32_t;  // trace lane

  [[nodiscard]] bool has_events() const {
    for (std::uint32_t c = s_.first_call; c < s_.last_call; ++c) {
      const CallRole role = s_.index.calls[c].role;
      if (role == CallRole::kRecord || role == CallRole::kStreamWait) return true;
    }
    return false;
  }

  [[nodiscard]] std::uint32_t op_of(std::uint32_t i) const { return s_.graph.op[s_.works[i].task].value; }
  [[nodiscard]] Stream stream_of(std::uint32_t i) const { return s_.gpu(i).lane; }

  // The stream most of them run on.
  [[nodiscard]] Stream home_of(const std::vector<std::uint32_t>& works) const {
    std::map<Stream, std::size_t> count;
    for (const std::uint32_t i : works) ++count[stream_of(i)];
    return std::max_element(count.begin(), count.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
  }

  // One thread's works, in order of launch.
  void follow(const std::vector<std::uint32_t>& works) {
    const Stream home_stream = home_of(works);
    const auto at_home = [&](std::uint32_t i) { return stream_of(i) == home_stream; };
    std::vector<std::uint32_t> home;         // works of the home stream so far
    std::map<Stream, std::uint32_t> forked;  // by stream: its last kernel that nothing waits for yet
    for (auto from = works.begin(); from != works.end();) {
      const auto to = std::find_if(from + 1, works.end(),
                                   [&](std::uint32_t i) { return op_of(i) == kNone || op_of(i) != op_of(*from); });
      const bool forks = std::any_of(from, to, at_home);  // a call on other streams alone is no part of this
      for (auto i = from; i != to; ++i) {
        if (at_home(*i)) {
          join(forked, *i);
          home.push_back(*i);
        } else if (forks) {
          fork(home, *i);
          forked[stream_of(*i)] = *i;
        }
      }
      from = to;
    }
  }

  // Once per source and stream: what follows there waits with it.
  void fork(const std::vector<std::uint32_t>& home, std::uint32_t i) {
    for (auto source = home.rbegin(); source != home.rend(); ++source) {
      if (s_.gpu(*source).end > s_.gpu(i).begin) continue;
      std::uint32_t& known = forked_from_[stream_of(i)];
      if (known != *source) wait(*source, i);
      known = *source;
      return;
    }
  }

  void join(std::map<Stream, std::uint32_t>& forked, std::uint32_t i) {
    for (auto it = forked.begin(); it != forked.end();) {
      if (s_.gpu(it->second).end > s_.gpu(i).begin) {
        ++it;
        continue;
      }
      wait(it->second, i);
      it = forked.erase(it);
    }
  }

  void wait(std::uint32_t source, std::uint32_t target) { s_.works[target].waits.push_back({source}); }

  StepState& s_;
  std::map<Stream, std::uint32_t> forked_from_;
};

}  // namespace

void join_library_streams(StepState& s) {
  if (s.without(DependencyKind::kStreamWait) || s.works.empty()) return;
  LibraryStreams(s).run();
}

}  // namespace foretrace::graph
