// Collectives over a fabric: every algorithm and protocol that applies is costed as latency + bytes / bandwidth, and the
// cheapest is taken, which is how NCCL chooses. What a step costs and a protocol leaves of the bandwidth is in protocols.hpp; bandwidths
// are the fabric's.

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "hardware/collective.hpp"
#include "hardware/protocols.hpp"

namespace foretrace::hardware {

namespace {

constexpr std::size_t index(Protocol p) { return static_cast<std::size_t>(p); }

struct Shape {
  int ranks = 1, nodes = 1, per_node = 1;
  const FabricLevel* inner = nullptr;  // inside a node; null when nodes hold one GPU
  const FabricLevel* outer = nullptr;  // between nodes; null with one node
};

Shape shape_of(const Fabric& f, int ranks) {
  Shape s;
  s.ranks = ranks;
  if (f.levels.size() == 1) {
    const bool network = f.levels[0].link == LinkKind::kNetwork;
    s.per_node = network ? 1 : ranks;
    s.nodes = network ? ranks : 1;
    (network ? s.outer : s.inner) = &f.levels[0];
    return s;
  }
  s.per_node = std::min(f.gpus_per_node, ranks);
  s.nodes = (ranks + f.gpus_per_node - 1) / f.gpus_per_node;
  if (s.per_node > 1) s.inner = &f.levels[0];
  if (s.nodes > 1) s.outer = &f.levels[1];
  return s;
}

double reached(const FabricLevel& l) { return l.gbs * l.efficiency * 1e3; }  // bytes per us

// Bytes per us that leave a node through the outer level, all its GPUs together.
double node_rate(const Shape& s) { return reached(*s.outer) * (s.outer->per_node ? 1 : s.per_node); }

bool two_passes(Collective kind) { return kind == Collective::kAllReduce; }
bool one_link(Collective kind) {
  return kind == Collective::kSendRecv || kind == Collective::kGather || kind == Collective::kScatter;
}
bool one_root(Collective kind) { return kind == Collective::kBroadcast || kind == Collective::kReduce; }

// What a tree sends out of a node, in sizes of the tensor. NCCL runs two trees, each for half of it, and a node inside one is a leaf
// of the other: up once and down twice for one half, up once for the other. Of two nodes, each is the root of one tree: half goes up,
// the other half down.
double sent_by_tree(double nodes) { return nodes <= 2 ? 1 : 2; }

}  // namespace

double bus_factor(Collective kind, int ranks) {
  const double n = std::max(1, ranks);
  switch (kind) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return (n - 1) / n;
    default:
      return n > 1 ? 1 : 0;
  }
}

int ring_steps(Collective kind, int ranks) {
  switch (kind) {
    case Collective::kAllReduce:
      return 2 * (ranks - 1);
    case Collective::kAllToAll:
    case Collective::kSendRecv:
    case Collective::kGather:
    case Collective::kScatter:
      return 1;
    default:
      return ranks - 1;
  }
}

std::string_view to_string(Algorithm algorithm) {
  constexpr std::array<std::string_view, kAlgorithms> kNames = {"ring", "tree",      "two-level",
                                                                "NVLS", "NVLS tree", "CollNet"};
  return kNames[static_cast<std::size_t>(algorithm)];
}
std::string_view to_string(Protocol protocol) {
  constexpr std::array<std::string_view, 3> kNames = {"LL", "LL128", "Simple"};
  return kNames[index(protocol)];
}

FabricCollectives::FabricCollectives(Fabric fabric) : FabricCollectives(std::move(fabric), protocols()) {}
FabricCollectives::FabricCollectives(Fabric fabric, const Protocols& known)
    : fabric_(std::move(fabric)), protocols_(&known) {}

std::optional<double> FabricCollectives::micros(const CollectiveCall& call, Algorithm algorithm,
                                                Protocol protocol) const {
  const Shape s = shape_of(fabric_, call.ranks);
  if (call.ranks < 2) return 0.0;
  const double n = call.ranks;
  const double nodes = s.nodes;
  const double k = s.per_node;
  const double passes = two_passes(call.kind) ? 2 : 1;
  const bool network = s.outer != nullptr;
  const Protocols& known = *protocols_;
  const auto scale_of = [&](const FabricLevel& l) {
    return l.latency_scale * known.typical_scale[static_cast<std::size_t>(l.link)];
  };
  const auto payload_rate = [&](double rate, Protocol p) { return rate * known.payload[index(p)]; };
  const double scale = scale_of(network ? *s.outer : *s.inner);
  const double base = (network ? known.network_base : known.node_base)[index(protocol)] * scale;
  const auto hop = [&](const FabricLevel& l, bool tree) {
    const std::array<ByProtocol, kLinkKinds>& steps = tree ? known.tree : known.ring;
    return steps[static_cast<std::size_t>(l.link)][index(protocol)] * scale_of(l) + l.extra_us;
  };
  // LL128 needs stores that arrive whole: NVLink inside the node.
  if (protocol == Protocol::kLL128 && (s.inner == nullptr || s.inner->link != LinkKind::kNvlink)) return std::nullopt;

  if (one_link(call.kind) || call.kind == Collective::kAllToAll) {
    // Point to point: no reduction, no ring; a message per peer, those inside the node at the inner rate.
    if (algorithm != Algorithm::kRing || protocol == Protocol::kLL128) return std::nullopt;
    const FabricLevel& far = s.outer != nullptr ? *s.outer : *s.inner;
    double us = hop(far, false) + (network ? base : known.peer_base[index(protocol)] * scale);
    // All parts but its own go over the root's link.
    if (one_link(call.kind)) {
      return us + bus_factor(call.kind, call.ranks) * call.bytes / payload_rate(reached(far), protocol);
    }
    if (s.inner != nullptr) {
      us += call.bytes * (k - 1) / n / (payload_rate(reached(*s.inner), protocol) * known.peers_share);
    }
    if (s.outer != nullptr) {
      us += call.bytes * (n - k) / n / payload_rate(node_rate(s) / k, protocol);
    }
    return us;
  }

  switch (algorithm) {
    case Algorithm::kRing: {
      // One ring through all ranks: 2(n-1) steps, those that cross nodes slower; its bandwidth is its slowest link's.
      const double steps = passes * (n - 1);
      const double crossing = s.outer != nullptr ? passes * (nodes - 1) : 0;
      double us = base + crossing * (s.outer != nullptr ? hop(*s.outer, false) : 0) +
                  (steps - crossing) * (s.inner != nullptr ? hop(*s.inner, false) : 0);
      double rate = s.inner != nullptr ? payload_rate(reached(*s.inner), protocol) : 0;
      if (s.outer != nullptr) {
        const double out = payload_rate(node_rate(s), protocol);
        rate = s.inner != nullptr ? std::min(rate, out) : out;
      }
      if (!network && s.inner->link == LinkKind::kNvlink && !one_root(call.kind)) {
        us += call.bytes / n / (reached(*s.inner) * known.local_copy);
      }
      return us + bus_factor(call.kind, call.ranks) * call.bytes / rate;
    }
    case Algorithm::kTwoLevel: {
      // Inside the node, between nodes on each GPU's part, inside the node again. One node or one GPU per node: the ring.
      if (s.inner == nullptr || s.outer == nullptr) return micros(call, Algorithm::kRing, protocol);
      const double in_rate = payload_rate(reached(*s.inner), protocol);
      const double out_rate = payload_rate(node_rate(s) / k, protocol);
      const double inside = (k - 1) * hop(*s.inner, false) + (k - 1) / k * call.bytes / in_rate;
      const double between = (nodes - 1) * hop(*s.outer, false) + (nodes - 1) / nodes * (call.bytes / k) / out_rate;
      return base + passes * (inside + between);
    }
    case Algorithm::kTree: {
      if (call.kind != Collective::kAllReduce) return std::nullopt;
      const double depth = s.outer != nullptr ? std::floor(std::log2(nodes)) : 0;
      const double us = base + 2 * ((k - 1) * (s.inner != nullptr ? hop(*s.inner, true) : 0) +
                                    depth * (s.outer != nullptr ? hop(*s.outer, true) : 0));
      const double inside = s.inner != nullptr ? 2 * call.bytes / payload_rate(reached(*s.inner), protocol) : 0;
      const double between =
          s.outer != nullptr ? sent_by_tree(nodes) * call.bytes / payload_rate(node_rate(s), protocol) : 0;
      return us + std::max(inside, between) / known.tree_share;
    }
    case Algorithm::kNvls: {
      if (s.inner == nullptr || !s.inner->nvls || s.outer != nullptr || protocol != Protocol::kSimple ||
          call.ranks < 3) {
        return std::nullopt;
      }
      if (call.kind != Collective::kAllReduce) return std::nullopt;
      // Each GPU sends its tensor once and receives it once, with the switch's own part: (n+1)/n instead of 2(n-1)/n.
      return base + known.nvls_base * scale_of(*s.inner) +
             (n + 1) / n * call.bytes / (reached(*s.inner) * known.nvls_share);
    }
    case Algorithm::kNvlsTree: {
      if (s.inner == nullptr || !s.inner->nvls || s.outer == nullptr || protocol != Protocol::kSimple ||
          call.kind != Collective::kAllReduce) {
        return std::nullopt;
      }
      // Both levels work on parts of the tensor at the same time: the slower one's bytes are what is seen.
      const double inside = (k + 1) / k * call.bytes / (reached(*s.inner) * known.nvls_share);
      const double between = sent_by_tree(nodes) * call.bytes / (node_rate(s) * known.tree_share);
      return base + known.nvls_base * scale_of(*s.inner) + 2 * std::floor(std::log2(nodes)) * hop(*s.outer, true) +
             std::max(inside, between);
    }
    case Algorithm::kCollNet: {
      if (s.outer == nullptr || !s.outer->sharp || protocol != Protocol::kSimple ||
          call.kind != Collective::kAllReduce) {
        return std::nullopt;
      }
      // Up to the switches and back: every byte leaves a node once and comes in once, whatever the number of nodes.
      const double inside = s.inner != nullptr ? 2 * (k - 1) / k * call.bytes / reached(*s.inner) : 0;
      const double steps = s.inner != nullptr ? 2 * (k - 1) * hop(*s.inner, false) : 0;
      return base + steps + 2 * hop(*s.outer, false) + std::max(inside, call.bytes / node_rate(s));
    }
  }
  return std::nullopt;
}

CollectiveCost FabricCollectives::cost(const CollectiveCall& call) const {
  CollectiveCost best;
  best.sigma = protocols_->fabric_spread;
  if (call.ranks < 2 || fabric_.levels.empty()) {
    best.how = "one rank";
    best.sigma = 0;
    return best;
  }
  double us = 0;
  for (const Algorithm a : {Algorithm::kRing, Algorithm::kTree, Algorithm::kTwoLevel, Algorithm::kNvls,
                            Algorithm::kNvlsTree, Algorithm::kCollNet}) {
    if (a == Algorithm::kTwoLevel && !fabric_.hierarchical) continue;
    for (const Protocol p : {Protocol::kLL, Protocol::kLL128, Protocol::kSimple}) {
      const std::optional<double> t = micros(call, a, p);
      if (!t || (!best.how.empty() && *t >= us)) continue;
      us = *t;
      best.how = std::string(to_string(a)) + " " + std::string(to_string(p));
      best.steps = a == Algorithm::kRing ? ring_steps(call.kind, call.ranks) : 1;
    }
  }
  us = std::max(us, fabric_.floor_us);
  best.ns = static_cast<Ns>(std::llround(std::min(us * 1e3, 9e17)));
  const Shape s = shape_of(fabric_, call.ranks);
  best.channels = fabric_.channels > 0 ? fabric_.channels : s.outer != nullptr && s.inner == nullptr ? 2 : 16;
  return best;
}

}  // namespace foretrace::hardware
