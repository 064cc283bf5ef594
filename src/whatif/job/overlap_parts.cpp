#include "whatif/job/overlap_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "hardware/figures.hpp"
#include "hardware/shared_memory.hpp"
#include "trace/latencies.hpp"
#include "whatif/job/nearest_network.hpp"
#include "whatif/job/network_costs.hpp"
#include "whatif/job/overlapping_kernels.hpp"
#include "whatif/job/stream_units.hpp"
#include "whatif/model/simulate_model.hpp"
#include "whatif/rewrite/async_collective.hpp"
#include "whatif/rewrite/collective_transfer.hpp"
#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

namespace {

// Rows are the tokens: of a batch of products too, where each has tokens of its own. A weight's gradient sums over them.
work::Work part_of(const work::Work& whole, int parts, bool sums) {
  work::Work part = work::with_batch(whole, 1.0 / parts);
  auto* product = std::get_if<work::Gemm>(&part.kind);
  if (product == nullptr) return part;
  *product = std::get<work::Gemm>(whole.kind);
  std::int64_t& rows = sums ? product->k : product->m;
  rows = std::max<std::int64_t>(1, (rows + parts - 1) / parts);
  work::refresh(part);
  return part;
}

/// The time of a part of a collective over that of the whole: by the network whose times are nearest to the recorded ones.
class PartTransfers {
 public:
  /// `waiting`: of one rank's trace, whose collectives wait for other ranks.
  PartTransfers(const Model& m, int parts, const std::optional<CollectiveTransfers>& waiting) : parts_(parts) {
    TransferTimes recorded;
    for (std::uint32_t t = 0; t < m.graph.size(); ++t) {
      if (m.graph.kind[t] != TaskKind::kCollective || !m.graph.event[t].valid()) continue;
      const std::optional<Ns> transfer = waiting ? waiting->of(m.graph, t) : std::nullopt;
      recorded[m.graph.event[t].value] = static_cast<double>(transfer.value_or(m.graph.cost[t]));
    }
    const Result<PlacedNetwork> network = PlacedNetwork::make(nearest_network(*m.trace, recorded, m.device), m.device);
    if (!network) return;
    const auto groups = ranks::process_groups(*m.trace);
    for (const ranks::Operation& whole : ranks::operations_of(*m.trace, m.trace->distributed.rank)) {
      const std::vector<std::int64_t> members = members_of(whole, groups, *m.trace);
      ranks::Operation part = whole;
      part.bytes /= parts;
      const auto all = network->cost(whole, members), one = network->cost(part, members);
      if (all && one && all->ns > 0) share_[whole.event] = static_cast<double>(one->ns) / static_cast<double>(all->ns);
    }
  }
  [[nodiscard]] double share(EventId event) const {
    const auto known = share_.find(event.value);
    return known == share_.end() ? 1.0 / parts_ : std::clamp(known->second, 1.0 / parts_, 1.0);
  }

 private:
  int parts_;
  std::unordered_map<std::uint32_t, double> share_;
};

/// A part of a task.
struct Piece {
  std::uint32_t task;
  Ns cost;    ///< alone
  Ns beside;  ///< while a part of the collective runs
  std::uint32_t work;
  graph::Origin origin;
};

class Overlapper {
 public:
  Overlapper(Model& m, Draft& draft, int parts)
      : m_(m), g_(m.graph), draft_(draft), parts_(parts), transfers_(waits_of(m)), shares_(m, parts, transfers_) {
    rows_ = rows_of(m, draft);
    for (std::size_t i = 0; i < rows_.size(); ++i) row_of_[rows_[i].work] = i;
  }

  void at(const OverlapPlace& p) {
    const Collective c = collective(p);
    switch (p.side) {
      case CutSide::kBefore:
        behind_each_part(p, c);
        break;
      case CutSide::kBehind:
        in_front_of_each_part(p, c);
        break;
      case CutSide::kNone:
        moved(p, c);
        break;
    }
    draft_.remove({p.collective}, Draft::kTaskOnly);
  }

 private:
  struct Collective {
    std::uint32_t task = kNone;
    Ns wait = 0, transfer = 0;  ///< the whole
    Interference interference;
    [[nodiscard]] Ns part(double share) const { return static_cast<Ns>(static_cast<double>(transfer) * share); }
  };

  static std::optional<CollectiveTransfers> waits_of(const Model& m) {
    return m.transfers_only ? std::nullopt : std::optional<CollectiveTransfers>(std::in_place, *m.trace, m.device);
  }

  [[nodiscard]] Collective collective(const OverlapPlace& p) const {
    const hardware::Figures& figures = hardware::measured_figures(m_.device);
    Collective c{.task = p.collective, .transfer = g_.cost[p.collective]};
    if (transfers_) {
      c.transfer = transfers_->of(g_, c.task).value_or(c.transfer);
      c.wait = g_.cost[c.task] - c.transfer;
    }
    // Faster than any link to the host, between parts of one GPU, it goes through the memory that kernels use.
    const auto bytes = static_cast<double>(ranks::recorded_collective(*m_.trace, g_.event[c.task].value).bytes);
    const bool inside = hardware::parts_of_gpu(m_.device).count > 1 && m_.device.pcie_gbs > 0 && c.transfer > 0 &&
                        bytes / static_cast<double>(c.transfer) > m_.device.pcie_gbs;
    c.interference = {recorded_channels(m_, c.task), figures.kernel_contention,
                      inside ? figures.collective_inside : figures.collective_contention, 0};
    return c;
  }

  [[nodiscard]] Piece piece(std::uint32_t t, const Interference& i) {
    const std::uint32_t whole = m_.works.row_of(t);
    const auto [known, added] = pieces_.try_emplace(whole);
    if (added) {
      const Row& row = rows_[row_of_.at(whole)];
      work::Work part = part_of(m_.works[whole], parts_, gradients_.has(m_.works[whole]));
      const hardware::Cost cost = rescale_row(m_, row, part);
      double share = cost.known && row.time > 0 ? cost.ns / static_cast<double>(row.time) : 0;
      share = std::clamp(share, 1.0 / parts_, 1.0);
      part.sigma = cost.sigma;
      part.kernels = static_cast<std::uint32_t>(static_cast<double>(row.tasks.size()) / times_run(m_, row));
      known->second = {share, m_.works.add(part)};
    }
    Piece out{t, static_cast<Ns>(static_cast<double>(draft_.cost(t)) * known->second.first), 0, known->second.second,
              parts_ > 1 ? graph::Origin::kModelled : g_.origin[t]};
    const work::Work& work = m_.works[out.work];
    out.beside = beside(t, i, out.cost, &work);
    return out;
  }
  [[nodiscard]] Ns beside(std::uint32_t t, const Interference& i, Ns cost, const work::Work* work) const {
    return static_cast<Ns>(static_cast<double>(cost) / speed_during_collective(m_, t, i, cost, work));
  }

  std::vector<Piece> pieces(const OverlapPlace& p, const Interference& i) {
    std::vector<Piece> out;
    for (const std::uint32_t t : p.cut) out.push_back(piece(t, i));
    return out;
  }
  static Ns sum(const std::vector<Piece>& pieces, Ns Piece::* time) {
    Ns all = 0;
    for (const Piece& piece : pieces) all += piece.*time;
    return all;
  }

  // Kernels and a transfer that start together, in part beside each other: the shorter one is over before the other one.
  static double shared(Ns of, Ns with) {
    return of > 0 ? std::min(1.0, static_cast<double>(with) / static_cast<double>(of)) : 0;
  }
  static Ns slowed(Ns alone, Ns beside, double share) {
    return alone + static_cast<Ns>(static_cast<double>(beside - alone) * share);
  }
  static Ns slowed_transfer(const Collective& c, Ns part, Ns kernels) {
    return static_cast<Ns>(static_cast<double>(part) *
                           (1 + shared(part, kernels) * (1 / (1 - c.interference.collective) - 1)));
  }

  // The first part of a product stays in its place.
  void keep(const Piece& piece, Ns cost) {
    draft_.set(piece.task, cost, piece.origin);
    draft_.set_work(piece.task, piece.work);
  }
  // All of the next one. What an operation on a slice takes the CPU, slice of the result included.
  std::uint32_t add_all(const std::vector<Piece>& all, double share, Place& at) {
    std::uint32_t first = kNone;
    EventId op;
    for (const Piece& piece : all) {
      const bool another = first == kNone || g_.op[piece.task] != op;
      op = g_.op[piece.task];
      const double us = another ? m_.host.eager.op_us + 2 * m_.host.reference.view_us : 0;
      const Ns cpu = m_.cpu_time(us, g_.phase[piece.task]);
      const std::uint32_t task = insert(piece, slowed(piece.cost, piece.beside, share), cpu, at);
      if (first == kNone) first = task;
    }
    return first;
  }
  // They follow one another.
  std::uint32_t insert(const Piece& piece, Ns cost, Ns cpu, Place& at) {
    at = draft_.insert({.name = std::string(g_.task_name(piece.task)),
                        .cost = cost,
                        .phase = g_.phase[piece.task],
                        .layer = g_.layer[piece.task],
                        .kind = g_.kind[piece.task],
                        .after = at,
                        .cpu_cost = cpu,
                        .work = piece.work,
                        .origin = piece.origin,
                        .op = g_.op[piece.task]});
    return at.gpu;
  }

  // A part on the collective's stream, launched behind `cpu`, or by the recorded call. Moves `cpu` behind it.
  std::uint32_t send(const Collective& c, Ns cost, bool by_recorded_call, std::uint32_t& cpu) {
    NewKernel part{.name = std::string(g_.task_name(c.task)),
                   .cost = cost,
                   .phase = g_.phase[c.task],
                   .layer = g_.layer[c.task],
                   .kind = TaskKind::kCollective,
                   .after = {cpu, stream_for(c.task)},
                   .cpu_cost = m_.cpu_time(m_.host.ddp.collective_us, g_.phase[c.task]),
                   .work = m_.works.row_of(c.task),
                   .event = g_.event[c.task],
                   .op = g_.op[c.task]};
    if (part.after.gpu == kNone) part.lane = lane_;
    if (by_recorded_call) part.launch_of = static_cast<std::uint32_t>(g_.launch[c.task].index());
    const Place at = draft_.insert(part);
    (on_main(c.task) ? on_lane_ : last_of_[c.task]) = at.gpu;
    cpu = at.cpu;
    return at.gpu;
  }
  [[nodiscard]] bool on_main(std::uint32_t task) const { return g_.lane[task] == main_; }
  // What a part follows: the one before it; or its place on the recorded stream; none at the begin of a new one.
  std::uint32_t stream_for(std::uint32_t task) {
    if (!on_main(task)) {
      const auto before = last_of_.find(task);
      return before == last_of_.end() ? task : before->second;
    }
    if (lane_ == kNone) lane_ = draft_.add_lane(graph::GraphLaneKind::kGpu, "communication", g_.lanes[main_].device);
    return on_lane_;
  }

  // What waited for the collective waits for its last part; on the computing stream, what reads the result does.
  void hand_on(const OverlapPlace& p, std::uint32_t last, bool reader_waits) {
    for (std::uint32_t d = g_.dep_begin[p.collective]; d < g_.dep_begin[p.collective + 1]; ++d) {
      const std::uint32_t to = g_.dep_to[d];
      if (g_.dep_kind[d] == DependencyKind::kShare || g_.lane[to] == main_) continue;
      draft_.depend(last, to, g_.dep_lag[d], g_.dep_kind[d]);
    }
    if (reader_waits) hold_until(draft_, *m_.latencies, last, p.reader);
  }
  void begin(std::uint32_t part, std::uint32_t behind) { begin_behind(draft_, *m_.latencies, part, {kNone, behind}); }

  // product 1 ─▶ part 1 beside product 2 …
  void behind_each_part(const OverlapPlace& p, const Collective& c) {
    const std::vector<Piece> all = pieces(p, c.interference);
    const Rest rest = rest_of(p, p.cut.back() + 1);
    const Ns alone = sum(all, &Piece::cost), part = c.part(shares_.share(g_.event[c.task]));
    const Ns sent = slowed_transfer(c, part, alone);
    for (const Piece& piece : all) keep(piece, piece.cost);
    Place at = place_behind(g_, p.cut.back());
    std::uint32_t last = kNone;
    for (int i = 1; i <= parts_; ++i) {
      if (i > 1) add_all(all, shared(alone, sent), at);
      const bool ends = i == parts_;
      last = send(c, (i == 1 ? c.wait : 0) + (ends ? slowed_transfer(c, part, rest.time) : sent), ends, at.cpu);
      begin(last, at.gpu);
    }
    slow(rest, p, c, part);
    hand_on(p, last, true);
  }

  // part 2 beside product 1 …
  void in_front_of_each_part(const OverlapPlace& p, const Collective& c) {
    const std::vector<Piece> all = pieces(p, c.interference);
    const Rest rest = rest_of(p, p.complete + 1);
    const Ns alone = sum(all, &Piece::cost), part = c.part(shares_.share(g_.event[c.task]));
    const Ns sent = slowed_transfer(c, part, alone);
    auto cpu = static_cast<std::uint32_t>(g_.launch[c.task].index());
    Place at = place_behind(g_, p.cut.back());
    std::uint32_t last = kNone;
    for (int i = 1; i <= parts_; ++i) {
      last = send(c, i == 1 ? c.wait + slowed_transfer(c, part, rest.time) : sent, i == 1, cpu);
      if (i == 1) begin(last, p.complete);
      const double share = i < parts_ ? shared(alone, sent) : 0;
      if (i == 1) {
        for (const Piece& piece : all) keep(piece, slowed(piece.cost, piece.beside, share));
      }
      hold_until(draft_, *m_.latencies, last, i == 1 ? p.cut.front() : add_all(all, share, at));
    }
    slow(rest, p, c, part);
    hand_on(p, last, false);
  }

  void moved(const OverlapPlace& p, const Collective& c) {
    auto cpu = static_cast<std::uint32_t>(g_.launch[c.task].index());
    const Rest rest = rest_of(p, p.complete + 1);
    const std::uint32_t sent = send(c, c.wait + slowed_transfer(c, c.transfer, rest.time), true, cpu);
    begin(sent, p.complete);
    slow(rest, p, c, c.transfer);
    hand_on(p, sent, true);
  }

  /// What runs while the last part does: the tasks from `first` to what reads the result, and gradients of weights that are put there.
  struct Rest {
    std::vector<std::uint32_t> tasks;
    Ns time = 0;  ///< of all
  };
  [[nodiscard]] Rest rest_of(const OverlapPlace& p, std::uint32_t first) const {
    Rest rest;
    const auto is_late = [&](std::uint32_t t) { return std::binary_search(p.late.begin(), p.late.end(), t); };
    const std::uint32_t end = p.side == CutSide::kBehind ? p.before + 1 : p.reader;
    for (std::uint32_t t = first; t < end; ++t) {
      const bool beside_it_already = t > p.before && t < p.waiting;
      if (t == p.collective || beside_it_already || is_late(t)) continue;
      rest.tasks.push_back(t);
      rest.time += draft_.cost(t);
    }
    for (const std::uint32_t t : p.late) rest.time += draft_.cost(t);
    return rest;
  }
  void slow(const Rest& rest, const OverlapPlace& p, const Collective& c, Ns transfer) {
    const double share = shared(rest.time, transfer);
    const auto becomes = [&](std::uint32_t t) {
      const Ns alone = draft_.cost(t);
      return slowed(alone, beside(t, c.interference, alone, m_.works.of(t)), share);
    };
    for (const std::uint32_t t : rest.tasks) draft_.set(t, becomes(t), graph::Origin::kScaled);
    Place at{static_cast<std::uint32_t>(g_.launch[c.task].index()), p.before};
    std::uint32_t op = kNone;
    for (const std::uint32_t t : p.late) {
      const Ns cpu = op == g_.op[t].value ? 0 : m_.cpu_time(m_.host.eager.op_us, g_.phase[t]);
      op = g_.op[t].value;
      const std::uint32_t there = insert(
          {t, becomes(t), 0, m_.works.row_of(t), std::max(g_.origin[t], graph::Origin::kScaled)}, becomes(t), cpu, at);
      for (std::uint32_t d = g_.dep_begin[t]; d < g_.dep_begin[t + 1]; ++d) {
        if (g_.dep_kind[d] != DependencyKind::kShare) draft_.depend(there, g_.dep_to[d], g_.dep_lag[d], g_.dep_kind[d]);
      }
    }
    draft_.remove(p.late, Draft::kWithLaunch);
  }

  Model& m_;
  const Graph& g_;
  Draft& draft_;
  const int parts_;
  const std::optional<CollectiveTransfers> transfers_;  // of one rank's trace, whose collectives wait
  const PartTransfers shares_;
  const WeightGradients gradients_{m_.works};
  std::vector<Row> rows_;
  std::map<std::uint32_t, std::size_t> row_of_;                       // by work
  std::map<std::uint32_t, std::pair<double, std::uint32_t>> pieces_;  // by work: share of the whole, work of a part
  const std::uint32_t main_ = main_stream(g_);
  std::uint32_t lane_ = kNone,
                on_lane_ = kNone;  // where collectives of the computing stream go, and the last one there
  std::map<std::uint32_t, std::uint32_t> last_of_;  // by collective: its last part
};

}  // namespace

void overlap_at(Model& model, Draft& draft, const std::vector<OverlapPlace>& places, int parts) {
  Overlapper overlapper(model, draft, parts);
  for (const OverlapPlace& place : places) overlapper.at(place);
}

}  // namespace foretrace::whatif
