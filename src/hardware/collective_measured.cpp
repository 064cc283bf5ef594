// Measured collectives as a cost model.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "hardware/collective.hpp"
#include "hardware/protocols.hpp"

namespace foretrace::hardware {

namespace {

// How well one collective represents another: those that move data in the same pattern first, then the same number of ranks.
double distance(Collective a, int n, Collective b, int m) {
  const auto group = [](Collective c) {
    switch (c) {
      case Collective::kAllReduce:
      case Collective::kAllGather:
      case Collective::kReduceScatter:
        return 0;
      case Collective::kBroadcast:
      case Collective::kReduce:
        return 1;
      default:
        return 2;
    }
  };
  const double kind = a == b ? 0 : group(a) == group(b) ? 1 : b == Collective::kAllReduce ? 2 : 3;
  return kind + 0.5 * std::abs(std::log2(static_cast<double>(n) / m));
}

// Microseconds before the first step and of all steps of a small message, as NCCL's model has them.
double latency_us(Collective kind, int ranks, bool network) {
  const Protocols& p = protocols();
  const auto link = static_cast<std::size_t>(network ? LinkKind::kNetwork : LinkKind::kNvlink);
  return (network ? p.network_base : p.node_base).front() + ring_steps(kind, ranks) * p.ring[link].front();
}

}  // namespace

// Between nodes all but what comes before the first step is steps, however slow. Inside a node what takes longer than steps do waited
// for its launch, and another collective waits as long.
double MeasuredCollectives::Curve::latency_ns(double of_this, Collective to, int to_ranks) const {
  if (network) {
    const double base = std::min(of_this, protocols().network_base.front() * 1e3);
    return base + (of_this - base) * ring_steps(to, to_ranks) / ring_steps(kind, ranks);
  }
  const double here = latency_us(kind, ranks, false);
  if (points.front().second * 1e-3 > protocols().slowest * here) return of_this;
  return of_this * latency_us(to, to_ranks, false) / here;
}

double MeasuredCollectives::Curve::ns(double bytes) const {
  if (points.size() == 1 || bytes <= points.front().first) {
    // Below the smallest size the time is latency; a single size says nothing about it.
    if (points.size() == 1) return points[0].second * std::max(1.0, bytes / std::max(1.0, points[0].first));
    return points.front().second;
  }
  std::size_t i = 1;
  while (i + 1 < points.size() && points[i].first < bytes) ++i;
  const auto& [b0, t0] = points[i - 1];
  const auto& [b1, t1] = points[i];
  const double slope = std::max(0.0, (t1 - t0) / (b1 - b0));
  return bytes > b1 ? t1 + (bytes - b1) * slope : t0 + (bytes - b0) * slope;
}

Result<MeasuredCollectives> MeasuredCollectives::make(std::vector<CollectiveRow> rows, std::string name) {
  MeasuredCollectives m;
  m.name_ = std::move(name);
  std::stable_sort(rows.begin(), rows.end(), [](const CollectiveRow& a, const CollectiveRow& b) {
    return std::tuple(a.kind, a.ranks, a.bytes) < std::tuple(b.kind, b.ranks, b.bytes);
  });
  int channels = 0;
  for (const CollectiveRow& row : rows) {
    if (row.ranks < 2 || !(row.bytes > 0) || !(row.ms > 0)) continue;
    channels = std::max(channels, row.channels);
    if (m.curves_.empty() || m.curves_.back().kind != row.kind || m.curves_.back().ranks != row.ranks) {
      // Where the rows do not say it, the smallest message shows over which links it went: the nearer latency by its ratio.
      const double inside = latency_us(row.kind, row.ranks, false);
      const double between = latency_us(row.kind, row.ranks, true);
      const bool slow = row.ms * 1e3 * row.ms * 1e3 > inside * between;
      m.curves_.push_back({row.kind, row.ranks, row.ranks_per_node > 0 ? row.ranks_per_node < row.ranks : slow, {}});
    }
    auto& points = m.curves_.back().points;
    if (!points.empty() && points.back().first == row.bytes) {
      points.back().second = std::min(points.back().second, row.ms * 1e6);  // measured twice: the less disturbed run
    } else {
      points.emplace_back(row.bytes, row.ms * 1e6);
    }
  }
  if (channels > 0) m.channels_ = channels;
  // A larger message does not take less: where a smaller one was measured longer, it was disturbed.
  for (Curve& curve : m.curves_) {
    for (std::size_t i = curve.points.size() - 1; i-- > 0;) {
      curve.points[i].second = std::min(curve.points[i].second, curve.points[i + 1].second);
    }
  }
  if (m.curves_.empty()) {
    return fail(ErrorCode::kDeclined, "no usable row: a measurement needs at least two ranks, a size and a time");
  }
  return m;
}

CollectiveCost MeasuredCollectives::cost(const CollectiveCall& call) const {
  CollectiveCost c;
  c.channels = channels_;
  if (call.ranks < 2) {
    c.how = "one rank";
    c.sigma = 0;
    return c;
  }
  c.steps = ring_steps(call.kind, call.ranks);
  const Curve* best = nullptr;
  for (const Curve& curve : curves_) {
    if (best == nullptr || distance(call.kind, call.ranks, curve.kind, curve.ranks) <
                               distance(call.kind, call.ranks, best->kind, best->ranks)) {
      best = &curve;
    }
  }
  if (best->kind == call.kind && best->ranks == call.ranks) {
    c.ns = static_cast<Ns>(std::llround(std::min(9e17, best->ns(call.bytes))));
    c.how = "measured";
    c.measured = true;
    c.sigma = protocols().measured_spread;
    return c;
  }
  // The size at which the busiest link carries as much, with the latency of its own steps.
  const double carries = bus_factor(call.kind, call.ranks) / bus_factor(best->kind, best->ranks);
  const double whole = best->ns(call.bytes * carries);
  const double latency = std::min(best->points.front().second, whole);
  const double moved = best->latency_ns(latency, call.kind, call.ranks) + (whole - latency);
  c.ns = static_cast<Ns>(std::llround(std::min(9e17, moved)));
  c.how = fmt::format("derived from {} over {}", to_string(best->kind), best->ranks);
  c.sigma = protocols().derived_spread;
  return c;
}

}  // namespace foretrace::hardware
