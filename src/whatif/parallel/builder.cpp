// Inserts the parts of a scheme into a draft: collectives, CPU work, kernels, and what waits for what.

#include "whatif/parallel/builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hardware/figures.hpp"
#include "hardware/shared_memory.hpp"
#include "trace/latencies.hpp"
#include "whatif/parallel/gradients.hpp"
#include "whatif/rewrite/async_collective.hpp"

namespace foretrace::whatif {

namespace {

// Whether ranks on parts of one GPU exchange through its memory: faster than any link to the host is.
bool inside_one_gpu(const hardware::Device& device, const Cluster& cluster) {
  constexpr double kBytes = 64 << 20;  // a large message
  const hardware::CollectiveCost sum =
      cluster.collectives->cost({hardware::Collective::kAllReduce, kBytes, cluster.workers});
  return device.pcie_gbs > 0 && sum.ns > 0 && kBytes / static_cast<double>(sum.ns) > device.pcie_gbs;
}

// A guard: each slice is several tasks of the graph, and P3 looks for the most urgent one among all that wait.
double least_slice(const Gradients& gradients, Scheme scheme) {
  const double most = scheme == Scheme::kP3 ? 1 << 12 : 1 << 15;
  return static_cast<double>(gradients.bytes()) / most;
}

}  // namespace

Builder::Builder(Model& model, Draft& d, const Gradients& g, const Parallelism& p, const Cluster& c)
    : m(model), draft(d), gradients(g), how(p), cluster(c), ddp(model.host.ddp) {
  const hardware::Parts parts = hardware::parts_of_gpu(model.device);
  few_queues_ = parts.count > 1;
  memory_share_ = 1 / parts.count;
  for (std::uint32_t t = 0; t < m.graph.size(); ++t) {
    // Those that another change put there stay: they are of another group.
    if (m.graph.kind[t] != TaskKind::kCollective || !m.graph.event[t].valid()) continue;
    draft.set(t, 0, graph::Origin::kModelled);
    communicates_ = true;
  }
  if (communicates_)
    m.not_modelled.emplace_back("the trace is of several workers: its own collectives were taken out first");
  if (how.slice_mb && *how.slice_mb * (1 << 20) < least_slice(gradients, how.scheme)) {
    m.not_modelled.push_back(fmt::format("slices below {:.2g} MiB: modelled as larger ones",
                                         least_slice(gradients, how.scheme) / (1 << 20)));
  }
  if (!m.interference) {
    const hardware::Figures& measured = hardware::measured_figures(m.device);
    const bool inside = few_queues_ && inside_one_gpu(m.device, cluster);
    m.interference = Interference{0, measured.kernel_contention,
                                  inside ? measured.collective_inside : measured.collective_contention, 0};
  }
}

std::uint32_t Builder::new_lane(const std::string& name) {
  return draft.add_lane(graph::GraphLaneKind::kNetwork, name, m.graph.lanes[gradients.stream].device);
}

std::uint32_t Builder::lane() {
  if (lane_ == kNone) lane_ = new_lane("communication");
  return lane_;
}

std::uint32_t Builder::collective(std::uint32_t to, hardware::Collective kind, double bytes, const std::string& name) {
  return collective(to, kind, bytes, cluster.workers, name);
}

std::uint32_t Builder::collective(std::uint32_t to, hardware::Collective kind, double bytes, int ranks,
                                  const std::string& name, double slower) {
  hardware::CollectiveCost cost = cluster.collectives->cost({kind, bytes, ranks});
  cost.ns = static_cast<Ns>(static_cast<double>(cost.ns) * slower);
  return transfer(to, cost, name);
}

std::uint32_t Builder::transfer(std::uint32_t to, const hardware::CollectiveCost& cost, const std::string& name) {
  const Ns steps = how.ring_steps ? std::clamp(cost.steps, 1, kMostSteps) : 1;
  std::uint32_t first = kNone;
  std::uint32_t last = kNone;
  for (Ns k = 0; k < steps; ++k) {
    const Ns ns = cost.ns * (k + 1) / steps - cost.ns * k / steps;  // adds up to the nanosecond
    last = draft.append(to, TaskKind::kCollective, name, ns, Phase::kCommunication, graph::LayerId{});
    draft.set(last, ns, cost.measured ? graph::Origin::kScaled : graph::Origin::kModelled);
    if (first == kNone) {
      first = last;
    } else {
      draft.depend(last - 1, last, 0, DependencyKind::kCollective);  // also where the lane goes by priority
    }
  }
  if (first != last) first_.emplace(last, first);
  // Kernels that overlap a collective lose the SMs that it occupies.
  Interference& i = *m.interference;
  i.communication_sigma = std::max(i.communication_sigma, cost.sigma);
  if (m.device.sm_count > 0) {
    i.sms = std::max(i.sms, std::min(m.device.sm_count / 2, cost.channels));
  }
  return last;
}

std::uint32_t Builder::first_of(std::uint32_t collective) const {
  const auto found = first_.find(collective);
  return found == first_.end() ? collective : found->second;
}

Selection Builder::steps_of(std::uint32_t collective) const {
  Selection all;
  for (std::uint32_t t = first_of(collective); t <= collective; ++t) all.push_back(t);
  return all;
}

std::vector<double> Builder::slices(double bytes) const {
  // P3 slices at 50,000 parameters (published in its paper), far below what NCCL moves well; no better value was measured.
  constexpr double kP3SliceMb = 4;
  if (!how.slice_mb && how.scheme != Scheme::kP3) return {bytes};
  const double slice = std::max(how.slice_mb.value_or(kP3SliceMb) * (1 << 20), least_slice(gradients, how.scheme));
  const double count = std::max(1.0, std::ceil(bytes / slice));
  return std::vector<double>(static_cast<std::size_t>(count), bytes / count);
}

Ns Builder::memory_ns(double bytes) const {
  const double gbs = m.device.streaming_gbs() * memory_share_;
  return static_cast<Ns>(std::llround(static_cast<double>(m.latencies->short_kernel) + (gbs > 0 ? bytes / gbs : 0)));
}

std::uint32_t Builder::kernel(Place& at, const std::string& name, double bytes, Ns cpu_cost, Phase phase,
                              int launches) {
  work::Work work(work::Family::kCopy);
  work.bytes_read = work.bytes_written = bytes / 2;
  const std::uint32_t row = m.works.add(work);
  at = draft.insert({.name = name,
                     .cost = memory_ns(bytes) + (launches - 1) * memory_ns(0),
                     .phase = phase,
                     .after = at,
                     .cpu_cost = cpu_cost * launches,
                     .work = row});
  return at.gpu;
}

std::uint32_t Builder::cpu(Place& at, const std::string& name, Ns cost, Phase phase) {
  at.cpu = draft.insert_cpu(at.cpu, name, cost, phase);
  return at.cpu;
}

void Builder::start_behind(std::uint32_t task, const Place& at) {
  begin_behind(draft, *m.latencies, first_of(task), at);
}

void Builder::wait_for(std::uint32_t task, std::uint32_t collective) {
  hold_until(draft, *m.latencies, collective, first_of(task));
}

void Builder::sync(Place& at, const std::string& name) { at.cpu = draft.insert_read_back(at, name); }

void Builder::hold_stream(std::uint32_t lane, std::uint32_t cpu, std::uint32_t task, std::uint32_t point) {
  const Graph& g = m.graph;
  FORETRACE_CHECK(cpu < g.size());
  for (std::uint32_t t = g.lanes[lane].begin; t < g.lanes[lane].end; ++t) {
    if (!g.launch[t].valid() || g.lane[g.launch[t].index()] != g.lane[cpu] || g.launch[t].value <= cpu) continue;
    draft.depend(task, t, 0, DependencyKind::kStreamWait, point);
    return;  // the others follow on their stream
  }
}

void Builder::hold_main_stream(std::uint32_t cpu, std::uint32_t task) {
  hold_stream(gradients.stream, cpu, task, graph::kWhole);
}

void Builder::hold_side_streams(std::uint32_t cpu, std::uint32_t task, std::uint32_t point) {
  for (std::uint32_t l = 0; l < m.graph.lanes.size(); ++l) {
    if (m.graph.lanes[l].kind == graph::GraphLaneKind::kGpu && l != gradients.stream) hold_stream(l, cpu, task, point);
  }
}

std::pair<int, double> Builder::buffers() const {
  // Running mean, running variance and the count of batches of every batch norm.
  std::vector<std::uint32_t> seen;
  double bytes = 0;
  for (const work::Work& w : m.works.rows) {
    const auto* norm = std::get_if<work::BatchNorm>(&w.kind);
    if (norm == nullptr || w.backward) continue;
    if (std::find(seen.begin(), seen.end(), w.op_event) != seen.end()) continue;
    seen.push_back(w.op_event);
    bytes += 8.0 * static_cast<double>(norm->input[1]) + 8;
  }
  return {3 * static_cast<int>(seen.size()), bytes};
}

Place Builder::before_forward() const {
  const Graph& g = m.graph;
  Place at;
  const graph::GraphLane& main = g.lanes[g.main_lane];
  for (std::uint32_t t = main.begin + 1; t < main.end; ++t) {
    if (g.phase[t] == Phase::kForward && g.kind[t] != TaskKind::kWait) {
      at.cpu = t - 1;
      break;
    }
  }
  const graph::GraphLane& stream = g.lanes[gradients.stream];
  for (std::uint32_t t = stream.begin; t < stream.end; ++t) {
    if (g.phase[t] == Phase::kForward) {
      if (t > stream.begin) at.gpu = t - 1;
      break;
    }
  }
  return at;
}

BucketPlan plan_of(const Gradients& gradients, const Parallelism& how) {
  if (!how.buckets.empty()) {
    BucketPlan plan;
    for (const GradientRange& range : how.buckets) {
      Bucket bucket;
      for (std::uint32_t i = range.first; i <= range.last; ++i) {
        bucket.gradients.push_back(i);
        bucket.bytes += gradients.bytes(i);
      }
      plan.push_back(std::move(bucket));
    }
    return plan;
  }
  const auto bytes = [](double mb) { return static_cast<std::int64_t>(std::llround(std::min(mb, 1e9) * (1 << 20))); };
  return pytorch_buckets(gradients, bytes(how.bucket_mb), bytes(how.first_bucket_mb.value_or(how.bucket_mb)),
                         how.order);
}

}  // namespace foretrace::whatif
