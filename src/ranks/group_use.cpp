#include "ranks/group_use.hpp"

#include <map>

namespace foretrace::ranks {

using graph::Phase;
using work::Family;

namespace {

// What was computed since a group's last exchange.
struct Stretch {
  bool began = false, attention = false, weights = false;
  bool lookup = false;  // the last thing computed, other than moving and adding numbers
  void see(const Act& act) {
    const bool attends = act.family == Family::kAttention || act.family == Family::kSoftmax;
    attention |= attends;
    weights |= act.multiplies_weights();
    lookup = act.lookup || (lookup && !attends && !work::is_product(act.family));
  }
};

void add(Volume& volume, Phase phase, double amount) {
  (phase == Phase::kForward ? volume.forward : phase == Phase::kBackward ? volume.backward : volume.after) += amount;
}

// Whether the next computation that matters is attention.
bool leads_to_attention(const std::vector<Act>& acts, std::size_t from) {
  for (std::size_t i = from + 1; i < acts.size(); ++i) {
    if (acts[i].multiplies_weights()) return false;
    if (acts[i].family == Family::kAttention || acts[i].family == Family::kSoftmax) return true;
  }
  return false;
}

}  // namespace

Volume& volume_of(GroupUse& use, CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kGather:
      return use.gathered;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kScatter:
      return use.scattered;
    case CollectiveKind::kAllToAll:
      return use.exchanged;
    case CollectiveKind::kSendRecv:
      return use.sent;
    default:
      return use.reduced;
  }
}

std::vector<GroupUse> group_uses(const Matching& matching, const ProgramOrder& order) {
  std::vector<GroupUse> out(matching.groups.size());
  for (std::uint32_t r = 0; r < order.size(); ++r) {
    std::map<std::uint32_t, Stretch> since;  // of the groups that exchange on this rank
    for (const GroupOperation& op : matching.operations[r]) {
      if (op.kind == CollectiveKind::kAllToAll) since[op.group];
    }
    for (std::size_t i = 0; i < order[r].size(); ++i) {
      const Act& act = order[r][i];
      if (!act.communicates()) {
        for (auto& [group, stretch] : since) stretch.see(act);
        continue;
      }
      for (const GroupOperation& op : operations_of(matching, r, act)) {
        GroupUse& use = out[op.group];
        const double amount = op.bytes >= 0 ? static_cast<double>(op.bytes) : 1;
        add(volume_of(use, op.kind), act.phase, amount);
        if (act.phase != Phase::kForward) continue;
        if (op.kind == CollectiveKind::kAllGather && leads_to_attention(order[r], i)) use.to_attention += amount;
        if (op.kind != CollectiveKind::kAllToAll) continue;
        Stretch& before = since[op.group];
        use.cores += before.began && before.attention && !before.weights ? 1u : 0u;
        use.lookups += before.lookup ? 1u : 0u;
        before = {.began = true};
      }
    }
  }
  return out;
}

}  // namespace foretrace::ranks
