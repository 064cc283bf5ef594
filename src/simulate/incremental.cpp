// The walk over chunks. What a chunk's summary must say for its tasks to move with their lanes:
//   - no dependency may start to delay a task more: shift(source) <= shift(lane) + room;
//   - each task keeps a binding dependency: its lane predecessor, or one whose source has moved by the same amount.

#include "simulate/incremental.hpp"

#include <algorithm>
#include <queue>

namespace foretrace::simulate {

using graph::DependencyKind;
using graph::Graph;
using graph::GraphLane;

namespace {
// A chunk that must be simulated costs about 20 ns a task, one that is skipped about 20 ns in all: with some hundred tasks
// in a chunk both sums stay small on graphs of 10,000 to a million tasks.
constexpr std::size_t kChunk = 128;
constexpr std::uint32_t kBlock = 64;
}  // namespace

Result<Incremental> Incremental::make(const Graph& graph, std::span<const Ns> cost) {
  for (const graph::GraphLane& lane : graph.lanes) {
    if (!lane.by_priority) continue;
    return fail(
        ErrorCode::kDeclined,
        "lane '" + std::string(graph.strings[lane.name]) + "' goes by priority: nothing there moves by a constant",
        "simulate() answers for such graphs");
  }
  return Incremental(graph, cost);
}

Incremental::Incremental(const Graph& graph, std::span<const Ns> cost) : g_(graph) {
  const std::span<const Ns> costs = cost.empty() ? g_.cost.span() : cost;
  cost_.assign(costs.begin(), costs.end());
  lane_lag_.assign(g_.lane_lag.begin(), g_.lane_lag.end());
  dep_lag_.assign(g_.dep_lag.begin(), g_.dep_lag.end());
  const Timeline base = simulate(g_, {cost_, nullptr});
  start_.assign(base.start.begin(), base.start.end());
  base_step_ = base.step;
  pieces_.resize(g_.lanes.size());
  for (std::size_t l = 0; l < g_.lanes.size(); ++l) pieces_[l].assign(1, {g_.lanes[l].begin, 0});
  find_order();
  find_reasons();
  marked_.assign((order_.size() + kChunk - 1) / kChunk, 0);
  summarise();
  effort_.untouched = g_.size();
}

void Incremental::find_order() {
  using Next = std::pair<Ns, std::uint32_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> ready;
  std::vector<std::uint32_t> pending(g_.in_degree.begin(), g_.in_degree.end());
  const auto release = [&](std::uint32_t t) {
    if (--pending[t] == 0) ready.emplace(start_[t], t);
  };
  for (std::uint32_t t = 0; t < g_.size(); ++t) {
    if (pending[t] == 0) ready.emplace(start_[t], t);
  }
  order_.reserve(g_.size());
  chunk_of_.resize(g_.size());
  while (!ready.empty()) {
    const std::uint32_t t = ready.top().second;
    ready.pop();
    chunk_of_[t] = static_cast<std::uint32_t>(order_.size() / kChunk);
    order_.push_back(t);
    for (std::uint32_t d = g_.dep_begin[t]; d < g_.dep_begin[t + 1]; ++d) release(g_.dep_to[d]);
    if (t + 1 < g_.lanes[g_.lane[t]].end) release(t + 1);
    if (const TaskId call = graph::queued_behind(g_, t); call.valid()) release(call.value);
  }
}

void Incremental::find_reasons() {
  const auto each = [&](auto&& use) {
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      for (std::uint32_t d = g_.dep_begin[t]; d < g_.dep_begin[t + 1]; ++d) {
        if (g_.dep_kind[d] != DependencyKind::kShare) use(g_.dep_to[d], Reason{t, d, g_.dep_point[d]});
      }
      if (const TaskId call = graph::queued_behind(g_, t); call.valid()) use(call.value, Reason{t, kNone, 0});
    }
  };
  reason_begin_.assign(g_.size() + 1, 0);
  each([&](std::uint32_t to, const Reason&) { ++reason_begin_[to + 1]; });
  for (std::size_t t = 0; t < g_.size(); ++t) reason_begin_[t + 1] += reason_begin_[t];
  reasons_.resize(reason_begin_.back());
  std::vector<std::uint32_t> at(reason_begin_.begin(), reason_begin_.end() - 1);
  each([&](std::uint32_t to, const Reason& r) { reasons_[at[to]++] = r; });
}

Ns Incremental::reason_time(const Reason& r, Ns from_start, Ns from_cost) const {
  if (r.dependency == kNone) return from_start + g_.lanes[g_.lane[r.from]].queue_lag;
  return std::max(from_start + graph::point_in(from_cost, r.point) + dep_lag_[r.dependency], from_start);
}

void Incremental::summarise() {
  const auto zero = static_cast<std::uint32_t>(g_.lanes.size());
  const std::size_t chunks = marked_.size();
  rooms_.clear();
  room_begin_.assign(1, 0);
  lane_last_.assign(g_.lanes.size(), 0);
  std::vector<Room> found;
  const auto add = [&](std::uint32_t source, std::uint32_t target, std::uint32_t from, Ns room, bool follows) {
    auto it = std::find_if(found.begin(), found.end(),
                           [&](const Room& r) { return r.source == source && r.target == target; });
    if (it == found.end()) it = found.insert(found.end(), {source, target, kNone, kNone, room});
    it->earliest = std::min(it->earliest, from);
    it->room = std::min(it->room, room);
    if (follows) it->followed = std::min(it->followed, from);
  };
  for (std::size_t c = 0; c < chunks; ++c) {
    found.clear();
    for (std::size_t i = c * kChunk; i < std::min(order_.size(), (c + 1) * kChunk); ++i) {
      const std::uint32_t t = order_[i];
      const std::uint32_t lane = g_.lane[t];
      lane_last_[lane] = static_cast<std::uint32_t>(c);
      const auto lane_time = [&] { return std::max(start_[t - 1] + cost_[t - 1] + lane_lag_[t], start_[t - 1]); };
      // When it is ready but for the soft dependency, whether that one holds or not: what all the others must keep.
      Ns ready = start_[t];
      if (g_.soft[t] != kNone) {
        ready = g_.first_of_lane(t) ? 0 : std::max<Ns>(0, lane_time());
        for (std::uint32_t k = reason_begin_[t]; k < reason_begin_[t + 1]; ++k) {
          const Reason& r = reasons_[k];
          ready = std::max(ready, reason_time(r, start_[r.from], cost_[r.from]));
        }
        const std::uint32_t from = g_.soft_dependencies[g_.soft[t]].from.value;
        add(g_.lane[from], lane, from, 0, true);
      }
      bool follows = !g_.first_of_lane(t) && lane_time() == ready;  // something that moves with it, exactly
      for (std::uint32_t k = reason_begin_[t]; k < reason_begin_[t + 1]; ++k) {
        const Reason& r = reasons_[k];
        const Ns at = reason_time(r, start_[r.from], cost_[r.from]);
        add(g_.lane[r.from], lane, r.from, ready - at, !follows && at == ready);
        follows = follows || at == ready;
      }
      add(zero, lane, 0, ready, !follows);
    }
    rooms_.insert(rooms_.end(), found.begin(), found.end());
    room_begin_.push_back(static_cast<std::uint32_t>(rooms_.size()));
  }
  limits_.assign((chunks + 1) * (g_.lanes.size() + 1), {kNone, kNone, INT64_MAX});
  for (std::size_t c = chunks; c-- > 0;) {
    Limit* const mine = limits_.data() + c * (g_.lanes.size() + 1);
    std::copy(mine + g_.lanes.size() + 1, mine + 2 * (g_.lanes.size() + 1), mine);
    for (std::uint32_t k = room_begin_[c]; k < room_begin_[c + 1]; ++k) {
      Limit& limit = mine[rooms_[k].source];
      limit.earliest = std::min(limit.earliest, rooms_[k].earliest);
      limit.followed = std::min(limit.followed, rooms_[k].followed);
      limit.room = std::min(limit.room, rooms_[k].room);
    }
  }
  if (g_.copies > 1) {
    block_end_.assign((g_.size() + kBlock - 1) / kBlock, 0);
    for (std::size_t t = 0; t < g_.size(); ++t) {
      block_end_[t / kBlock] = std::max(block_end_[t / kBlock], start_[t] + cost_[t]);
    }
  }
}

Ns Incremental::ready_without_lane(std::uint32_t t) const {
  Ns ready = 0;
  for (std::uint32_t k = reason_begin_[t]; k < reason_begin_[t + 1]; ++k) {
    const Reason& r = reasons_[k];
    ready = std::max(ready, reason_time(r, start(r.from), cost_[r.from]));
  }
  return ready;
}

std::uint32_t Incremental::cause(std::uint32_t t) const {
  const Ns begins = start(t);
  if (begins <= 0) return kNone;
  for (std::uint32_t k = reason_begin_[t]; k < reason_begin_[t + 1]; ++k) {
    const Reason& r = reasons_[k];
    if (reason_time(r, start(r.from), cost_[r.from]) == begins) return r.from;
  }
  if (!g_.first_of_lane(t)) {
    const Ns before = start(t - 1);
    if (std::max(before + cost_[t - 1] + lane_lag_[t], before) == begins) return t - 1;
  }
  return g_.soft[t] == kNone ? kNone : g_.soft_dependencies[g_.soft[t]].from.value;
}

Ns Incremental::shift(std::uint32_t task) const {
  const std::vector<Piece>& pieces = pieces_[g_.lane[task]];
  if (task >= pieces.back().from) return pieces.back().by;
  return std::prev(std::upper_bound(pieces.begin(), pieces.end(), task,
                                    [](std::uint32_t t, const Piece& p) { return t < p.from; }))
      ->by;
}

Ns Incremental::most_shift(std::uint32_t lane, std::uint32_t from) const {
  const std::vector<Piece>& pieces = pieces_[lane];
  Ns most = pieces.back().by;
  for (std::size_t i = pieces.size() - 1; i > 0 && pieces[i].from > from; --i) most = std::max(most, pieces[i - 1].by);
  return most;
}

bool Incremental::moves_with_lanes(std::size_t chunk) const {
  for (std::uint32_t k = room_begin_[chunk]; k < room_begin_[chunk + 1]; ++k) {
    const Room& r = rooms_[k];
    const Ns mine = pieces_[r.target].back().by;
    if (r.source == g_.lanes.size()) {
      if (0 > mine + r.room || (r.followed != kNone && mine != 0)) return false;
      continue;
    }
    const Piece& theirs = pieces_[r.source].back();
    if (r.followed != kNone && (theirs.by != mine || theirs.from > r.followed)) return false;
    if (most_shift(r.source, r.earliest) > mine + r.room) return false;
  }
  return true;
}

bool Incremental::settled(std::size_t chunk) const {
  Ns by = 0;
  bool first = true;
  for (std::size_t l = 0; l < pieces_.size(); ++l) {
    if (lane_last_[l] <= chunk) continue;
    if (!first && pieces_[l].back().by != by) return false;
    by = pieces_[l].back().by;
    first = false;
  }
  const Limit* const limits = limits_.data() + (chunk + 1) * (g_.lanes.size() + 1);
  const Limit& zero = limits[g_.lanes.size()];
  if (by != 0 && zero.followed != kNone) return false;
  if (zero.earliest != kNone && by + zero.room < 0) return false;
  for (std::uint32_t l = 0; l < pieces_.size(); ++l) {
    const Limit& limit = limits[l];
    if (limit.earliest == kNone) continue;
    const Piece& theirs = pieces_[l].back();
    if (limit.followed != kNone && (theirs.by != by || theirs.from > limit.followed)) return false;
    if (most_shift(l, limit.earliest) > by + limit.room) return false;
  }
  return true;
}

Ns Incremental::find_start(std::uint32_t t) const {
  Ns begins = 0;
  if (!g_.first_of_lane(t)) {
    const Ns before = start(t - 1);
    begins = std::max({begins, before + cost_[t - 1] + lane_lag_[t], before});
  }
  for (std::uint32_t k = reason_begin_[t]; k < reason_begin_[t + 1]; ++k) {
    const Reason& r = reasons_[k];
    begins = std::max(begins, reason_time(r, start(r.from), cost_[r.from]));
  }
  if (g_.soft[t] != kNone) {
    const graph::SoftDependency& soft = g_.soft_dependencies[g_.soft[t]];
    const std::uint32_t from = soft.from.value;
    const Ns theirs = start(from);
    if (theirs <= begins + soft.slack) {
      begins = std::max(begins, theirs + graph::point_in(cost_[from], soft.point) + soft.lag);
    }
  }
  return begins;
}

void Incremental::set_shift(std::uint32_t task, Ns by) {
  std::vector<Piece>& pieces = pieces_[g_.lane[task]];
  if (pieces.back().by == by) return;
  if (pieces.size() == 1) touched_.push_back(g_.lane[task]);
  pieces.push_back({task, by});
}

void Incremental::simulate_chunk(std::size_t chunk) {
  const std::size_t last = std::min(order_.size(), (chunk + 1) * kChunk);
  for (std::size_t i = chunk * kChunk; i < last; ++i) set_shift(order_[i], find_start(order_[i]) - start_[order_[i]]);
}

void Incremental::mark(std::uint32_t task) {
  const std::size_t chunk = chunk_of_[task];
  marked_[chunk] = round_;
  first_marked_ = std::min(first_marked_, chunk);
  last_marked_ = std::max(last_marked_, chunk);
}

void Incremental::undo_changes() {
  for (std::size_t i = old_.size(); i-- > 0;) {
    const Change& c = old_[i];
    (c.what == Change::kCost ? cost_ : c.what == Change::kLaneLag ? lane_lag_ : dep_lag_)[c.index] = c.value;
  }
  old_.clear();
  for (const std::uint32_t l : touched_) pieces_[l].resize(1);
  touched_.clear();
}

Ns Incremental::what_if(std::span<const Change> changes) {
  undo_changes();
  if (++round_ == 0) {
    std::fill(marked_.begin(), marked_.end(), 0);
    round_ = 1;
  }
  first_marked_ = marked_.size();
  last_marked_ = 0;
  for (const Change& c : changes) {
    Ns& figure = (c.what == Change::kCost ? cost_ : c.what == Change::kLaneLag ? lane_lag_ : dep_lag_)[c.index];
    if (figure == c.value) continue;
    old_.push_back({c.what, c.index, figure});
    figure = c.value;
    if (c.what == Change::kLaneLag) {
      mark(c.index);
    } else if (c.what == Change::kDependencyLag) {
      mark(g_.dep_to[c.index]);
    } else {
      for (std::uint32_t d = g_.dep_begin[c.index]; d < g_.dep_begin[c.index + 1]; ++d) mark(g_.dep_to[d]);
      if (c.index + 1 < g_.lanes[g_.lane[c.index]].end) mark(c.index + 1);
    }
  }
  effort_ = {0, 0, g_.size()};
  for (std::size_t c = first_marked_; c < marked_.size(); ++c) {
    const std::size_t tasks = std::min(order_.size(), (c + 1) * kChunk) - c * kChunk;
    effort_.untouched -= tasks;
    if (marked_[c] != round_ && moves_with_lanes(c)) {
      effort_.skipped += tasks;
    } else {
      simulate_chunk(c);
      effort_.simulated += tasks;
    }
    if (c >= last_marked_ && settled(c)) break;
  }
  return find_step();
}

void Incremental::accept() {
  base_step_ = find_step();
  for (const std::uint32_t l : touched_) {
    for (std::size_t i = 0; i < pieces_[l].size(); ++i) {
      const std::uint32_t end = i + 1 < pieces_[l].size() ? pieces_[l][i + 1].from : g_.lanes[l].end;
      for (std::uint32_t t = pieces_[l][i].from; t < end; ++t) start_[t] += pieces_[l][i].by;
    }
    pieces_[l].resize(1);
  }
  touched_.clear();
  old_.clear();
  summarise();
}

// As the engine's: a copy ends with its main thread and its work on the GPU.
Ns Incremental::find_step() const {
  if (g_.copies == 1) return end(g_.last.value);
  Ns ends[2] = {};
  for (std::uint32_t l = 0; l < g_.lanes.size(); ++l) {
    const GraphLane& lane = g_.lanes[l];
    if (lane.kind == graph::GraphLaneKind::kCpu && l != g_.main_lane) continue;
    const std::uint32_t length = (lane.end - lane.begin) / g_.copies;
    if (length == 0) continue;
    for (const std::uint32_t back : {1U, 2U}) {
      std::uint32_t t = lane.begin + (g_.copies - back) * length;
      const std::uint32_t last = t + length;
      std::size_t piece =
          static_cast<std::size_t>(std::upper_bound(pieces_[l].begin(), pieces_[l].end(), t,
                                                    [](std::uint32_t id, const Piece& p) { return id < p.from; }) -
                                   pieces_[l].begin());
      while (t < last) {
        while (piece < pieces_[l].size() && pieces_[l][piece].from <= t) ++piece;
        const Ns by = pieces_[l][piece - 1].by;
        const std::uint32_t until = std::min(last, piece < pieces_[l].size() ? pieces_[l][piece].from : last);
        const auto changed = [&](std::uint32_t block) {
          return std::any_of(old_.begin(), old_.end(),
                             [&](const Change& c) { return c.what == Change::kCost && c.index / kBlock == block; });
        };
        if (t % kBlock == 0 && t + kBlock <= until && !changed(t / kBlock)) {
          ends[back - 1] = std::max(ends[back - 1], block_end_[t / kBlock] + by);
          t += kBlock;
        } else {
          ends[back - 1] = std::max(ends[back - 1], start_[t] + by + cost_[t]);
          ++t;
        }
      }
    }
  }
  return ends[0] - ends[1];
}

}  // namespace foretrace::simulate
