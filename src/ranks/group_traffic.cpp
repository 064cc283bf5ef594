#include "ranks/group_traffic.hpp"

#include <algorithm>
#include <optional>

namespace foretrace::ranks {

using work::Family;

Traffic::Traffic(const Job& job, const Matching& matching, const JobGraph& graph, const ProgramOrder& order,
                 const hardware::CollectiveModel* fabric)
    : job_(job), m_(matching), order_(order), fabric_(fabric), measured_(order.size()), computing_(order.size()) {
  for (const Rendezvous& meeting : graph.collectives) {
    for (const Rendezvous::Part& p : meeting.parts) {
      if (p.arrive.valid() && p.counts)
        measured_[p.rank].emplace_back(graph.graph.event[p.arrive.index()].value, Times{p.wait, p.transfer});
    }
  }
  for (auto& list : measured_) {
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  for (std::size_t r = 0; r < order.size(); ++r) {
    Intervals all;
    for (const Act& a : order[r]) {
      if (!a.communicates() && a.family != Family::kMemory) all.emplace_back(a.start, a.end);
    }
    computing_[r] = united(std::move(all));
  }
}

// A kernel that no other rank shows may have waited for anybody: all of it counts as transfer.
Traffic::Times Traffic::times(std::uint32_t rank, const Act& act) const {
  const auto& list = measured_[rank];
  const auto at = std::lower_bound(list.begin(), list.end(), act.event,
                                   [](const auto& entry, std::uint32_t event) { return entry.first < event; });
  return at != list.end() && at->first == act.event ? at->second : Times{0, act.end - act.start};
}

// What the fabric needs for an operation, in ns; 0 where it has no model of it.
double Traffic::modelled(const GroupOperation& op, std::size_t ranks) const {
  if (fabric_ == nullptr || op.bytes <= 0 || ranks < 2) return 0;
  const std::optional<hardware::Collective> kind = hardware::parse_collective(to_string(op.kind));
  if (!kind) return 0;
  return static_cast<double>(fabric_->cost({*kind, static_cast<double>(op.bytes), static_cast<int>(ranks)}).ns);
}

void Traffic::measure(const Role& role, JobGroup& group) const {
  double moved = 0;
  std::uint64_t operations = 0;
  Ns wait = 0, transfer = 0, exposed = 0;
  Ns sized = 0;  // of the transfer: of operations whose size is known
  double fabric_ns = 0, fabric_bytes = 0;
  std::uint64_t ranks = 0;
  for (const std::uint32_t r : m_.groups[group.group].ranks) {
    Intervals kernels;
    for (const Act& act : order_[r]) {
      if (!act.communicates()) continue;
      double bytes = 0, model = 0;
      bool mine = false, known = true;
      for (const GroupOperation& op : operations_of(m_, r, act)) {
        if (op.group != group.group || !role.has(op.kind)) continue;
        mine = true;
        group.kinds |= 1u << static_cast<std::uint32_t>(op.kind);
        ++operations;
        known = known && op.bytes >= 0;
        bytes += static_cast<double>(std::max<std::int64_t>(0, op.bytes));
        // Messages of one kernel go both ways at once.
        const double alone = modelled(op, group.ranks.size());
        model = op.kind == CollectiveKind::kSendRecv ? std::max(model, alone) : model + alone;
        const bool receives = op.kind == CollectiveKind::kSendRecv && op.to == job_.ranks[r].rank;
        if (!receives) group.bytes += static_cast<double>(std::max<std::int64_t>(0, op.bytes));
      }
      if (!mine) continue;
      const Times t = times(r, act);
      wait += t.wait;
      transfer += t.transfer;
      if (known) {
        sized += t.transfer;
        moved += bytes;
      }
      if (model > 0) {
        fabric_ns += model;
        fabric_bytes += bytes;
      }
      kernels.emplace_back(act.start, act.end);
    }
    exposed += length(without(united(std::move(kernels)), computing_[r]));
    ranks += order_[r].empty() ? 0u : 1u;
  }
  if (ranks == 0) return;
  const auto mean = [&](Ns sum) { return sum / static_cast<Ns>(ranks); };
  group.operations = operations / ranks;
  group.bytes /= static_cast<double>(ranks);
  group.wait = mean(wait);
  group.transfer = mean(transfer);
  group.exposed = mean(exposed);
  group.fabric_gbs = fabric_ns > 0 ? fabric_bytes / fabric_ns : 0;
  group.bandwidth_gbs = sized > 0 && moved > 0 ? moved / static_cast<double>(sized) : 0;
}

Intervals Traffic::bubble(std::uint32_t rank) const {
  Intervals receives;
  for (const Act& act : order_[rank]) {
    if (!act.communicates()) continue;
    for (const GroupOperation& op : operations_of(m_, rank, act)) {
      if (op.kind != CollectiveKind::kSendRecv || op.to != job_.ranks[rank].rank) continue;
      receives.emplace_back(act.start, act.end);
      break;
    }
  }
  return without(united(std::move(receives)), computing_[rank]);
}

}  // namespace foretrace::ranks
