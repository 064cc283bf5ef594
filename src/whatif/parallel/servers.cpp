// Parameter servers. Gradients are pushed to the servers that own their parts, added up there and pulled back. Servers stand
// alongside the workers (each owns 1/N of everything) or on machines of their own, whose links all workers share. P3 cuts gradients
// into slices and sends those first that the next forward pass needs first.

#include <algorithm>
#include <cmath>
#include <vector>

#include "foretrace/simulate/simulate.hpp"
#include "hardware/collective.hpp"
#include "whatif/model/simulate_model.hpp"
#include "whatif/parallel/builder.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::whatif {

using hardware::Collective;

namespace {

struct Exchange {
  std::uint32_t push = kNone, sum = kNone, pull = kNone;
};

/// The servers of a job and the links to them. Workers do the same at the same time, and so do servers: one of each stands
/// for all.
class Servers {
 public:
  Servers(Builder& builder, bool own_network) : b_(builder) {
    if (b_.how.servers > 0) {
      // Links carry both directions at once: pushes come in while sums go out.
      push_lane_ = b_.new_lane("push to servers");
      pull_lane_ = b_.new_lane("pull from servers");
      sum_lane_ = b_.new_lane("server");
    } else {
      // A worker's link carries its pushes and, for the server alongside it, the pulls of the others.
      push_lane_ = pull_lane_ = own_network ? b_.new_lane("network") : b_.lane();
      sum_lane_ = b_.draft.add_lane(graph::GraphLaneKind::kGpu, "server", b_.m.graph.lanes[b_.gradients.stream].device);
    }
  }

  [[nodiscard]] bool beside_workers() const { return b_.how.servers == 0; }

  Exchange exchange(double bytes) { return beside_workers() ? with_neighbours(bytes) : with_servers(bytes); }

 private:
  // Every worker sends each other one its slice and receives its own from all others: an all-to-all. It adds n - 1 slices
  // to its own; pull is the way back.
  Exchange with_neighbours(double bytes) {
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
  Exchange with_servers(double bytes) {
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
  [[nodiscard]] hardware::CollectiveCost link_cost(double bytes, Collective way) const {
    const hardware::CollectiveModel& network = *b_.cluster.collectives;
    // Workers and their server; more than a node holds, so that the link is that between nodes.
    const double ranks = std::max(b_.cluster.workers, b_.cluster.gpus_per_node) + 1;
    const auto over_one_link = [&](double all) {
      return network.cost({way, all * ranks / (ranks - 1), static_cast<int>(ranks)});
    };
    const hardware::CollectiveCost server = over_one_link(bytes * b_.cluster.workers / b_.how.servers);
    const hardware::CollectiveCost worker =
        over_one_link(bytes * std::min(network.sharing_a_port(), b_.cluster.workers));
    return server.ns >= worker.ns ? server : worker;
  }

  Builder& b_;
  std::uint32_t push_lane_ = kNone, pull_lane_ = kNone, sum_lane_ = kNone;
};

}  // namespace

Status apply_ps(Builder& b) {
  Buckets buckets(b);
  // Buckets, and what comes back: from servers beside the workers also the sum that each makes itself.
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
    if (b.few_queues()) b.hold_main_stream(launched, servers.beside_workers() ? e.sum : e.pull);
    return e.pull;
  });
  buckets.copy_back();
  return {};
}

namespace {

// By gradient, what a slice of it finds in front of it where streams share a queue: the last task of backward that was launched before
// the gradient was there. Launches run ahead of the GPU, so that this often is the end of backward.
std::vector<std::uint32_t> launched_before_ready(const Builder& b) {
  const Graph& g = b.m.graph;
  std::vector<std::uint32_t> last(b.gradients.list.size(), kNone);
  if (!b.few_queues()) return last;
  const simulate::Timeline alone = simulate::simulate(g);
  const graph::GraphLane& stream = g.lanes[b.gradients.stream];
  std::uint32_t t = stream.begin;
  for (std::size_t i = 0; i < last.size(); ++i) {
    const std::uint32_t from = b.gradients.list[i].gpu;
    if (from == kNone) continue;
    for (; t < stream.end && t <= b.gradients.backward_gpu; ++t) {
      if (g.launch[t].valid() && alone.end[g.launch[t].index()] > alone.end[from]) break;
    }
    last[i] = t > stream.begin ? std::max(t - 1, from) : from;
  }
  return last;
}

}  // namespace

Status apply_p3(Builder& b) {
  const Graph& g = b.m.graph;
  // Slices of each gradient, pushed once it is there; priority: gradients that come last in backward are needed first.
  // Without priorities: whole gradients, first come, first served. The update keeps its place in the step, wherever it runs.
  const bool priorities = b.how.priorities;
  if (b.m.memory) b.m.memory->start_bytes += b.gradients.bytes();  // what comes back, until its layer has taken it
  Servers servers(b, true);
  // The thread that sends takes the most urgent slice there is, and needs time for each.
  const std::uint32_t sender = b.draft.add_lane(graph::GraphLaneKind::kCpu, "P3 sender");
  const Ns send_ns = b.how.send_us ? static_cast<Ns>(std::llround(*b.how.send_us * 1e3)) : b.ns(b.ddp.gradient_us);
  std::vector<std::uint32_t> pulled(b.gradients.list.size(), kNone);
  const std::vector<std::uint32_t> in_front = launched_before_ready(b);
  const auto count = static_cast<std::uint32_t>(b.gradients.list.size());
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::uint32_t i = priorities ? count - 1 - k : k;
    const Gradient& gradient = b.gradients.list[i];
    const auto bytes = static_cast<double>(b.gradients.bytes(i));
    const std::vector<double> slices = priorities ? b.slices(bytes) : std::vector<double>{bytes};
    Place at{gradient.cpu, gradient.gpu};
    b.cpu(at, "P3: hook", b.ns(b.ddp.gradient_us), Phase::kBackward);
    for (const double slice : slices) {
      const Exchange e = servers.exchange(slice);
      const std::uint32_t send =
          b.draft.append(sender, TaskKind::kCpu, "P3: send a slice", send_ns, Phase::kBackward, {});
      b.draft.depend(at.cpu, send, 0, DependencyKind::kThread);
      // The choice is among gradients that are there, not among those the GPU has still to compute.
      if (gradient.gpu != kNone) b.draft.depend(gradient.gpu, send, 0, DependencyKind::kSync);
      // No more than one or two slices are under way: the others are sent once these get through.
      if (in_front[i] != kNone) b.draft.depend(in_front[i], send, 0, DependencyKind::kSync);
      if (priorities) {
        const auto priority = static_cast<std::int32_t>(i);
        b.draft.schedule({send}, priority);
        b.draft.schedule(b.steps_of(e.push), priority);
        b.draft.schedule(b.steps_of(e.pull), priority);
      }
      b.start_behind(e.push, {send, at.gpu});
      for (const std::uint32_t side : gradient.side) {
        b.draft.depend(side, b.first_of(e.push), 1'200, DependencyKind::kStreamWait);
      }
      pulled[i] = e.pull;
    }
  }

  // The next step up to the end of its forward pass, each layer behind its own parameters: the step is the distance of the two
  // passes' ends. What is in front of the pass belongs to it: a batch is loaded, gradients are cleared, in every step. What
  // counts as forward behind the first gradient (a wrapper's own copies) does not.
  Ns backward = INT64_MAX;
  for (std::uint32_t t = g.lanes[b.gradients.stream].begin; t < g.lanes[b.gradients.stream].end; ++t) {
    if (g.phase[t] != Phase::kBackward) continue;
    backward = g.launch[t].valid() ? g.measured[g.launch[t].index()] : g.measured[t];
    break;
  }
  bool has_forward = false;
  Query head;
  head.where = [&](std::uint32_t t) {
    if (g.kind[t] == TaskKind::kWait || g.kind[t] == TaskKind::kBegin) return false;
    const bool gpu = graph::is_gpu(g.kind[t]), launched = gpu && g.launch[t].valid(),
               pass = g.phase[t] == Phase::kForward;
    if ((launched ? g.measured[g.launch[t].index()] : g.measured[t]) >= backward) return false;
    if (gpu ? !launched && !pass : g.lane[t] != g.main_lane) return false;
    has_forward |= pass;
    return true;
  };
  const Selection pass = b.draft.select(head);
  if (!has_forward) return fail(ErrorCode::kDeclined, "the step shows no forward pass");
  const std::vector<std::uint32_t> copies = b.draft.clone(pass, {});
  std::uint32_t first_end = kNone;
  std::uint32_t second_end = kNone;
  std::vector<std::uint32_t> waits_for(g.layers.size(), kNone);  // the copy of the first kernel of each layer
  for (std::size_t k = 0; k < pass.size(); ++k) {
    const std::uint32_t t = pass[k];
    if (!graph::is_gpu(g.kind[t]) || g.lane[t] != b.gradients.stream) continue;
    first_end = t;
    second_end = copies[k];
    if (g.layer[t].valid() && waits_for[g.layer[t].index()] == kNone) waits_for[g.layer[t].index()] = copies[k];
  }
  if (first_end == kNone) return fail(ErrorCode::kDeclined, "the forward pass has no work on the main stream");
  std::uint32_t anywhere = kNone;  // gradients whose layer is unknown hold the first kernel
  for (std::size_t k = 0; k < pass.size() && anywhere == kNone; ++k) {
    if (graph::is_gpu(g.kind[pass[k]]) && g.lane[pass[k]] == b.gradients.stream) anywhere = copies[k];
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const Gradient& gradient = b.gradients.list[i];
    const std::uint32_t from = gradient.side.empty() ? gradient.gpu : gradient.side.front();
    const bool known = from != kNone && g.layer[from].valid() && waits_for[g.layer[from].index()] != kNone;
    b.wait_for(known ? waits_for[g.layer[from].index()] : anywhere, pulled[i]);
  }
  // Marks between which the step is measured.
  const std::uint32_t marks = b.draft.add_lane(graph::GraphLaneKind::kNetwork, "period");
  b.draft.added_lane(marks).role = graph::LaneRole::kPeriodMarks;
  const std::uint32_t begin = b.draft.append(marks, TaskKind::kWait, "period begins", 0, Phase::kOther, {});
  const std::uint32_t end = b.draft.append(marks, TaskKind::kWait, "period ends", 0, Phase::kOther, {});
  b.draft.depend(first_end, begin, 0, DependencyKind::kSync);
  b.draft.depend(second_end, end, 0, DependencyKind::kSync);
  return {};
}

}  // namespace foretrace::whatif
