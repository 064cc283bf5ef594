#include "whatif/job/pipeline_passes.hpp"

#include <algorithm>
#include <limits>

namespace foretrace::whatif {

using graph::Graph;
using graph::Phase;
using graph::TaskKind;

namespace {

/// A GPU task at the time of its launch.
struct Launched {
  Ns at;
  std::uint32_t task;
  bool message;
};

/// Consecutive computation of one phase, without a message in between.
struct Stretch {
  bool backward;
  std::uint32_t first, last;  // of the launches
};

class Reader {
 public:
  Reader(const Graph& g, const std::vector<std::uint32_t>& events) : g_(g), message_(g.size(), 0) {
    for (std::uint32_t t = 0; t < g.size(); ++t) {
      if (g.kind[t] != TaskKind::kCollective || !g.event[t].valid()) continue;
      message_[t] = std::find(events.begin(), events.end(), g.event[t].value) != events.end() ? 1 : 0;
    }
  }

  Result<PipelinePasses> read() {
    order_launches();
    find_stretches();
    PipelinePasses out;
    for (const Launched& l : launched_) {
      if (l.message) out.messages.push_back(l.task);
    }
    const auto forward =
        std::count_if(stretches_.begin(), stretches_.end(), [](const Stretch& s) { return !s.backward; });
    if (out.messages.empty() || forward < 2 || static_cast<std::size_t>(2 * forward) != stretches_.size()) {
      return fail(ErrorCode::kDeclined, "the forward and backward passes of the micro-batches cannot be distinguished");
    }
    out.micro_batches = static_cast<std::uint32_t>(forward);
    out.forward_first =
        std::none_of(stretches_.begin(), stretches_.begin() + forward, [](const Stretch& s) { return s.backward; });
    find_borders();
    collect(out);
    return out;
  }

 private:
  [[nodiscard]] Ns launch_of(std::uint32_t t) const {
    return g_.launch[t].valid() ? g_.measured[g_.launch[t].index()] : g_.measured[t];
  }

  void order_launches() {
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (!graph::is_gpu(g_.kind[t])) continue;
      const bool passes = g_.phase[t] == Phase::kForward || g_.phase[t] == Phase::kBackward;
      if (message_[t] == 0 && (!passes || g_.kind[t] == TaskKind::kCollective)) continue;
      launched_.push_back({launch_of(t), t, message_[t] != 0});
    }
    std::stable_sort(launched_.begin(), launched_.end(),
                     [](const Launched& a, const Launched& b) { return a.at < b.at; });
  }

  void find_stretches() {
    bool open = false;
    for (std::uint32_t i = 0; i < launched_.size(); ++i) {
      if (launched_[i].message) {
        open = false;
        continue;
      }
      const bool backward = g_.phase[launched_[i].task] == Phase::kBackward;
      if (!open || stretches_.back().backward != backward) stretches_.push_back({backward, i, i});
      stretches_.back().last = i;
      open = true;
    }
    // Behind the last backward pass gradients are divided by the number of micro-batches.
    while (!stretches_.empty() && !stretches_.back().backward) stretches_.pop_back();
  }

  // The first time from `from` on at which the CPU does something of this phase.
  [[nodiscard]] Ns first_of(bool backward, Ns from) const {
    Ns first = std::numeric_limits<Ns>::max();
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (graph::is_gpu(g_.kind[t]) || g_.measured[t] < from) continue;
      if (g_.phase[t] == (backward ? Phase::kBackward : Phase::kForward)) first = std::min(first, g_.measured[t]);
    }
    return first;
  }

  // Pass i is what the CPU does from border i to border i + 1. Calls of messages close the pass before them.
  void find_borders() {
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
      const Stretch& s = stretches_[i];
      const std::uint32_t before = i == 0 ? kNone : stretches_[i - 1].last;
      const bool message = s.first > 0 && s.first - 1 != before && launched_[s.first - 1].message;
      if (message) {
        borders_.push_back(launched_[s.first - 1].at + 1);
      } else {
        const Ns from = before == kNone ? std::numeric_limits<Ns>::min() : launched_[before].at + 1;
        borders_.push_back(std::min(first_of(s.backward, from), launched_[s.first].at));
      }
    }
    Ns end = launched_[stretches_.back().last].at + 1;
    for (const Launched& l : launched_) end = l.message ? std::max(end, l.at + 1) : end;
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (!graph::is_gpu(g_.kind[t]) && g_.phase[t] == Phase::kBackward) end = std::max(end, g_.measured[t] + 1);
    }
    borders_.push_back(end);
  }

  void collect(PipelinePasses& out) const {
    out.passes.resize(stretches_.size());
    out.end = borders_.back();
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
      out.passes[i].backward = stretches_[i].backward;
      out.passes[i].begin = borders_[i];
      out.passes[i].first_gpu = launched_[stretches_[i].first].task;
      out.passes[i].last_gpu = launched_[stretches_[i].last].task;
    }
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (message_[t] != 0 || g_.kind[t] == TaskKind::kBegin) continue;
      const Ns at = graph::is_gpu(g_.kind[t]) ? launch_of(t) : g_.measured[t];
      if (at < borders_.front() || at >= borders_.back()) continue;
      const auto border = std::upper_bound(borders_.begin(), borders_.end(), at);
      out.passes[static_cast<std::size_t>(border - borders_.begin()) - 1].tasks.push_back(t);
    }
  }

  const Graph& g_;
  std::vector<char> message_;
  std::vector<Launched> launched_;
  std::vector<Stretch> stretches_;
  std::vector<Ns> borders_;
};

}  // namespace

std::size_t PipelinePasses::like(bool backward, std::uint32_t micro_batch, std::uint32_t of) const {
  std::vector<std::size_t> recorded;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    if (passes[i].backward == backward) recorded.push_back(i);
  }
  const std::size_t n = recorded.size();
  if (micro_batch == 0) return recorded.front();
  if (micro_batch + 1 == of) return recorded.back();
  return n < 3 ? recorded.front() : recorded[1 + (micro_batch - 1) % (n - 2)];
}

bool carries_a_message(const Meeting& m) { return m.awaited == Awaited::kPartner && m.members.size() == 2; }

std::vector<std::vector<MessageEnd>> message_ends(const JobTies& ties) {
  std::vector<std::vector<MessageEnd>> out(ties.numbers.size());
  for (const Meeting& m : ties.meetings) {
    if (!carries_a_message(m)) continue;
    for (std::uint32_t i = 0; i < 2; ++i) {
      const std::uint32_t mine = ties.slot_of_rank[m.members[i].rank];
      const std::uint32_t other = ties.slot_of_rank[m.members[1 - i].rank];
      if (mine != kNone && other != kNone) {
        out[mine].push_back({m.members[i].event, other, i == m.root, m.members[i].waits});
      }
    }
  }
  return out;
}

Result<PipelinePasses> find_passes(const Graph& g, const std::vector<std::uint32_t>& sends_and_receives) {
  return Reader(g, sends_and_receives).read();
}

}  // namespace foretrace::whatif
