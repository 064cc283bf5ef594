#include "ranks/pipeline_shape.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace foretrace::ranks {
namespace {

using graph::Phase;

/// A message as one of its ends launched it.
struct Message {
  std::int64_t partner;
  bool sends;
  bool backward;    // of a send: the computation before it was a backward one
  std::size_t act;  // in the rank's order
};

/// The messages of one rank in one group.
struct RankMessages {
  std::uint32_t index;  // into Job::ranks
  std::vector<Message> messages;
  [[nodiscard]] std::uint32_t sends(std::int64_t to, bool backward) const {
    return static_cast<std::uint32_t>(std::count_if(messages.begin(), messages.end(), [&](const Message& m) {
      return m.sends && m.partner == to && m.backward == backward;
    }));
  }
};

using ByRank = std::map<std::int64_t, RankMessages>;

class ChainReader {
 public:
  ChainReader(const ProgramOrder& order, ByRank all, std::uint32_t group) : order_(order), all_(std::move(all)) {
    chain_.group = group;
  }

  // Ranks tied to `first` by messages, those without a trace among them.
  Chain read(std::int64_t first, std::set<std::int64_t>& seen) {
    std::vector<std::int64_t> reached{first};
    seen.insert(first);
    for (std::size_t i = 0; i < reached.size(); ++i) {
      const auto mine = all_.find(reached[i]);
      if (mine == all_.end()) continue;
      for (const Message& m : mine->second.messages) {
        if (seen.insert(m.partner).second) reached.push_back(m.partner);
      }
    }
    std::sort(reached.begin(), reached.end());
    chain_.ring = is_ring(reached);
    chain_.stages = chain_.ring ? reached : in_order(reached);
    if (chain_.ring) return std::move(chain_);
    if (!phases_show()) directions_instead();
    find_schedule();
    return std::move(chain_);
  }

 private:
  // The first kernel of every rank sends and receives: no rank waits for an earlier stage.
  [[nodiscard]] bool is_ring(const std::vector<std::int64_t>& ranks) const {
    for (const std::int64_t r : ranks) {
      const auto mine = all_.find(r);
      if (mine == all_.end()) continue;
      bool sends = false, receives = false;
      for (const Message& m : mine->second.messages) {
        if (m.act != mine->second.messages.front().act) break;
        (m.sends ? sends : receives) = true;
      }
      if (!sends || !receives) return false;
    }
    return true;
  }

  // Who begins with a send is the first stage; who gets it is the next one.
  std::vector<std::int64_t> in_order(const std::vector<std::int64_t>& ranks) {
    std::vector<std::int64_t> starts;
    for (const std::int64_t r : ranks) {
      const auto mine = all_.find(r);
      if (mine != all_.end() && mine->second.messages.front().sends) starts.push_back(r);
    }
    std::vector<std::int64_t> stages;
    std::set<std::int64_t> placed;
    for (std::optional<std::int64_t> at = starts.empty() ? ranks.front() : starts.front();
         at && placed.insert(*at).second;) {
      stages.push_back(*at);
      const auto mine = all_.find(*at);
      at.reset();
      if (mine == all_.end()) continue;
      for (const Message& m : mine->second.messages) {
        if (!m.sends || m.backward || placed.contains(m.partner)) continue;
        at = m.partner;
        break;
      }
    }
    // Ranks without a trace, and those behind them, follow by number.
    for (const std::int64_t r : ranks) {
      if (placed.insert(r).second) stages.push_back(r);
    }
    both_ends_ = starts.size() == 2 && stages.size() > 2 && starts.back() == stages.back();
    return stages;
  }

  [[nodiscard]] bool phases_show() const {
    return std::any_of(all_.begin(), all_.end(), [&](const auto& rank) {
      const std::vector<Act>& acts = order_[rank.second.index];
      return std::any_of(acts.begin(), acts.end(), [](const Act& a) { return a.phase == Phase::kBackward; });
    });
  }

  // Without phases, what goes to an earlier stage is a gradient.
  void directions_instead() {
    const auto place = [&](std::int64_t r) { return std::find(chain_.stages.begin(), chain_.stages.end(), r); };
    for (auto& [rank, mine] : all_) {
      for (Message& m : mine.messages) m.backward = m.sends && place(m.partner) < place(rank);
    }
  }

  void find_schedule() {
    PipelineShape& shape = chain_.shape;
    shape.stages = static_cast<std::uint32_t>(chain_.stages.size());
    const auto first = all_.find(chain_.stages.front()), last = all_.find(chain_.stages.back());
    std::uint32_t forward = 0, around = 0;
    if (first != all_.end()) forward = first->second.sends(chain_.stages[1], false);
    if (last != all_.end()) around = last->second.sends(chain_.stages.front(), false);
    if (forward == 0 && last != all_.end()) {  // the first stage has no trace: gradients come back as often
      forward = last->second.sends(chain_.stages[chain_.stages.size() - 2], true);
    }
    shape.micro_batches = forward > around ? forward - around : forward;
    shape.chunks = shape.micro_batches > 0 ? std::max(1U, forward / shape.micro_batches) : 1;
    if (both_ends_) {
      shape.schedule = Schedule::kDualPipe;
      shape.micro_batches *= 2;  // half of them enter at each end
      return;
    }
    if (last == all_.end() || shape.micro_batches < 2) return;
    if (weights_come_later()) {
      shape.schedule = Schedule::kZeroBubble;
    } else if (shape.chunks > 1) {
      shape.schedule = Schedule::kInterleaved;
    } else {
      shape.schedule = turns(last->second.index) > 1 && !all_forward_first(last->second)
                           ? Schedule::kOneForwardOneBackward
                           : Schedule::kGPipe;
    }
  }

  // Changes from forward to backward in the order of computation.
  [[nodiscard]] std::size_t turns(std::uint32_t rank) const {
    std::size_t count = 0;
    Phase now = Phase::kOther;
    for (const Act& a : order_[rank]) {
      if (a.communicates() || (a.phase != Phase::kForward && a.phase != Phase::kBackward)) continue;
      count += now == Phase::kForward && a.phase == Phase::kBackward ? 1u : 0u;
      now = a.phase;
    }
    return count;
  }

  // Whether the last stage had all micro-batches before it sent the first gradient. (Recomputation turns to forward in every
  // backward pass, so turns alone do not tell.) Of two micro-batches the second may have been fetched early.
  [[nodiscard]] bool all_forward_first(const RankMessages& last) const {
    std::size_t received = 0;
    for (const Message& m : last.messages) {
      if (m.sends) break;
      ++received;
    }
    return received >= std::max(chain_.shape.micro_batches, 3U);
  }

  // Weights' gradients are products of the backward pass that no gradient sent waits for: some run behind the last send.
  [[nodiscard]] bool weights_come_later() const {
    for (std::size_t s = 1; s < chain_.stages.size(); ++s) {
      const auto mine = all_.find(chain_.stages[s]);
      if (mine == all_.end()) continue;
      std::size_t last = SIZE_MAX;
      for (const Message& m : mine->second.messages) {
        if (m.sends && m.backward) last = m.act;
      }
      if (last == SIZE_MAX) continue;
      const std::vector<Act>& acts = order_[mine->second.index];
      const bool later = std::any_of(acts.begin() + static_cast<std::ptrdiff_t>(last), acts.end(), [](const Act& a) {
        return a.phase == Phase::kBackward && work::is_product(a.family);
      });
      if (later) return true;
    }
    return false;
  }

  const ProgramOrder& order_;
  ByRank all_;
  Chain chain_;
  bool both_ends_ = false;
};

}  // namespace

std::vector<Chain> find_chains(const Job& job, const Matching& matching, const ProgramOrder& order) {
  std::map<std::uint32_t, ByRank> groups;
  for (std::uint32_t r = 0; r < order.size(); ++r) {
    for (std::size_t i = 0; i < order[r].size(); ++i) {
      const Act& act = order[r][i];
      if (!act.communicates()) continue;
      for (const GroupOperation& op : operations_of(matching, r, act)) {
        if (op.kind != CollectiveKind::kSendRecv || op.from < 0 || op.to < 0) continue;
        const bool sends = op.from == job.ranks[r].rank;
        RankMessages& mine = groups[op.group].emplace(job.ranks[r].rank, RankMessages{r, {}}).first->second;
        mine.messages.push_back({sends ? op.to : op.from, sends, act.phase == Phase::kBackward, i});
      }
    }
  }
  std::vector<Chain> out;
  for (const auto& [group, ranks] : groups) {
    std::set<std::int64_t> seen;
    for (const auto& [rank, messages] : ranks) {
      if (!seen.contains(rank)) out.push_back(ChainReader(order, ranks, group).read(rank, seen));
    }
  }
  return out;
}

}  // namespace foretrace::ranks
