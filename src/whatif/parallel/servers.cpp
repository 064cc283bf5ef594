// Parameter servers. Gradients are pushed to the servers that own their parts, added up there and pulled back. Servers run
// on the workers (each owns 1/N of everything) or on machines of their own, whose links all workers share.

#include "whatif/parallel/servers.hpp"

#include <algorithm>

#include "whatif/parallel/builder.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::whatif {

using hardware::Collective;

Servers::Servers(Builder& builder, bool own_network) : b_(builder) {
  if (b_.how.servers > 0) {
    // Links carry both directions at once: pushes come in while sums go out.
    push_lane_ = b_.new_lane("push to servers");
    pull_lane_ = b_.new_lane("pull from servers");
    sum_lane_ = b_.new_lane("server");
  } else {
    // A worker's link carries its pushes and, for the server next to it, the pulls of the others.
    push_lane_ = pull_lane_ = own_network ? b_.new_lane("network") : b_.lane();
    sum_lane_ = b_.draft.add_lane(graph::GraphLaneKind::kGpu, "server", b_.m.graph.lanes[b_.gradients.stream].device);
  }
}

Ns Servers::time_of(double bytes) const {
  const int workers = b_.cluster.workers;
  if (on_workers()) {
    return 2 * b_.cluster.collectives->cost({Collective::kAllToAll, bytes, workers}).ns +
           b_.memory_ns(bytes / workers * 3 * (workers - 1));
  }
  return link_cost(bytes, Collective::kGather).ns + link_cost(bytes, Collective::kScatter).ns +
         b_.memory_ns(bytes / b_.how.servers * 3);
}

// Every worker sends each other one its slice and receives its own from all others: an all-to-all. It adds n - 1 slices
// to its own; pull is the reverse.
Exchange Servers::with_neighbours(double bytes) {
  Exchange e;
  const double slice = bytes / b_.cluster.workers;
  e.push = b_.collective(push_lane_, Collective::kAllToAll, bytes, "push");
  e.sum = b_.draft.append(sum_lane_, TaskKind::kKernel, "server: SUM",
                          b_.memory_ns(slice * 3 * (b_.cluster.workers - 1)), Phase::kBackward, {});
  e.pull = b_.collective(pull_lane_, Collective::kAllToAll, bytes, "pull");
  b_.wait_for(e.sum, e.push);
  b_.wait_for(e.pull, e.sum);
  return e;
}

// The first push to arrive is copied (COPY_FIRST), the others are added as they come in (SUM); only the last one's sum
// is left when all have arrived.
Exchange Servers::with_servers(double bytes) {
  Exchange e;
  const int workers = b_.cluster.workers;
  const double part = bytes / b_.how.servers;
  const auto sum_of_one = b_.memory_ns(part * 3);
  e.push = b_.transfer(push_lane_, link_cost(bytes, Collective::kGather), "push");
  const std::uint32_t early =
      b_.draft.append(sum_lane_, TaskKind::kCollective, "server: COPY_FIRST, SUM",
                      b_.memory_ns(part * 2) + std::max(0, workers - 2) * sum_of_one, Phase::kCommunication, {});
  e.sum = b_.draft.append(sum_lane_, TaskKind::kCollective, "server: SUM of the last", sum_of_one,
                          Phase::kCommunication, {});
  e.pull = b_.transfer(pull_lane_, link_cost(bytes, Collective::kScatter), "pull");
  const std::uint32_t arrived = b_.first_of(e.push);
  const bool whole = arrived == e.push;  // of a push in steps, the first one's end
  b_.draft.depend(arrived, early, 0, DependencyKind::kCollective,
                  whole ? graph::kWhole / static_cast<std::uint32_t>(workers) : graph::kWhole);
  b_.wait_for(e.sum, e.push);
  b_.wait_for(e.pull, e.sum);
  return e;
}

// A server's link carries its part of every worker's bytes; a worker's (or, shared, its node's) port all parts of its own.
// The slower of the two ends decides.
hardware::CollectiveCost Servers::link_cost(double bytes, Collective kind) const {
  const hardware::CollectiveModel& network = *b_.cluster.collectives;
  // Workers and their server; more than a node holds, so that the link is that between nodes.
  const double ranks = std::max(b_.cluster.workers, b_.cluster.gpus_per_node) + 1;
  const auto over_one_link = [&](double all) {
    return network.cost({kind, all * ranks / (ranks - 1), static_cast<int>(ranks)});
  };
  const hardware::CollectiveCost server = over_one_link(bytes * b_.cluster.workers / b_.how.servers);
  const hardware::CollectiveCost worker = over_one_link(bytes * std::min(network.sharing_a_port(), b_.cluster.workers));
  return server.ns >= worker.ns ? server : worker;
}

Status apply_ps(Builder& b) {
  Buckets buckets(b);
  // Buckets, and what comes back: with servers on the workers also the sum that each computes itself.
  const std::int64_t whole = b.gradients.bytes();
  if (b.m.memory) b.m.memory->start_bytes += 2 * whole + (b.how.servers > 0 ? 0 : whole / b.cluster.workers);
  Servers servers(b, false);
  buckets.reduce([&](const Bucket& bucket, Place& at, std::uint32_t launched) {
    b.cpu(at, "communication hook", b.ns(b.ddp.hook_us), Phase::kBackward);
    Exchange e;
    for (const double bytes : b.slices(static_cast<double>(bucket.bytes))) {
      b.cpu(at, "push and pull calls", 2 * b.ns(b.ddp.collective_us), Phase::kBackward);
      e = servers.exchange(bytes);
      b.start_behind(e.push, at);
      b.draft.depend(at.cpu, b.first_of(e.pull), 0, DependencyKind::kLaunch);
    }
    // What waits on a stream that shares the main one's queue: the server's sum, or the division behind a pull.
    if (b.few_queues()) b.hold_main_stream(launched, servers.on_workers() ? e.sum : e.pull);
    return e.pull;
  });
  buckets.copy_back();
  return {};
}

}  // namespace foretrace::whatif
