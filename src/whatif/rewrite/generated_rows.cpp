#include "whatif/rewrite/generated_rows.hpp"

#include <algorithm>
#include <cmath>

#include "hardware/spreads.hpp"
#include "trace/latencies.hpp"
#include "whatif/model/compiled.hpp"

namespace foretrace::whatif {

namespace {

using work::Family;
using work::Work;

Filling filling_of(const Model& m, const Row& row) {
  const EventId event = m.graph.event[row.tasks.front()];
  const trace::KernelLaunch* launch = event.valid() ? m.trace->launch(event.index()) : nullptr;
  if (launch == nullptr || m.device.sm_count <= 0) return {};
  double blocks = 1, threads = 1;
  for (const std::int64_t n : launch->grid) blocks *= static_cast<double>(std::max<std::int64_t>(1, n));
  for (const std::int64_t n : launch->block) threads *= static_cast<double>(std::max<std::int64_t>(1, n));
  constexpr double kThreadsOfSm = 2048;  // of NVIDIA's data centre GPUs; where the device's file does not say it
  const double of_sm = m.device.threads_per_sm > 0 ? m.device.threads_per_sm : kThreadsOfSm;
  const double occupied = launch->occupancy_pct > 0 ? launch->occupancy_pct / 100 : 1;
  return {blocks, m.device.sm_count * std::max(1.0, std::floor(of_sm * occupied / threads))};
}

// Into a table, several rows to one place: the gradient of a gather.
bool adds_up(const Work& w) { return w.family == Family::kEmbedding && w.backward; }

// Of compiled programs, reductions alone say so by how they walk their tensors.
bool sums_samples(const Work& w) { return w.access == work::Access::kStrided; }

}  // namespace

double generated_ns(double ns, const Work& was, const Work& becomes, const Filling& filling, double short_kernel,
                    const hardware::Device& device) {
  if (!(was.bytes() > 0)) return ns;
  const double start = std::min(ns, short_kernel);
  const double moved = becomes.bytes() / was.bytes();
  const bool typed = was.dtype != becomes.dtype || was.out_dtype != becomes.out_dtype;
  // Memory adds numbers of 32 bits by itself. Halves are read, added and exchanged for what was there: one access more.
  if (typed && adds_up(was) && becomes.bytes_written != was.bytes_written)
    return start + (ns - start) * (becomes.bytes_written < was.bytes_written ? 2 : 0.5);
  // No faster than before where bytes came from the cache.
  const double streamed = std::min(ns - start, was.bytes() / std::max(1.0, device.streaming_gbs()));
  // Memory delivers fewer bytes of another type. What a kernel takes beyond that goes with its elements and its blocks, and those stay: XLA
  // loads halves two at a time, by half as many blocks.
  if (typed) return start + streamed * moved + (ns - start - streamed);
  double factor = moved;
  if (filling.blocks > 0 && !sums_samples(was)) {
    // More samples are more blocks of the same size, and those that are there at once run at the same time.
    const auto turns = [&](double blocks) { return std::max(1.0, blocks / filling.resident); };
    factor = turns(filling.blocks * moved) / turns(filling.blocks);
  }
  // Both overlap in part, and add up as the sides of a right angle do.
  const double beyond = std::sqrt((ns - start) * (ns - start) - streamed * streamed);
  return start + std::hypot(streamed * moved, beyond * factor);
}

bool is_generated(const Model& m, const Work& work) {
  return is_compiled(m) && work.has_shape() && !is_product(work) && work.family != Family::kCommunication &&
         work.family != Family::kMemory && work.family != Family::kOther;
}

hardware::Cost rescale_generated(const Model& m, const Row& row, const Work& becomes) {
  const double times = times_run(m, row);
  const Work& was = m.works[row.work];
  const double before = static_cast<double>(row.time) / times;
  const double ns =
      generated_ns(before, was, becomes, filling_of(m, row), static_cast<double>(m.latencies->short_kernel), m.device);
  // The further from what was measured, the less is known; all of it at a factor of four.
  const double distance = before > 0 && ns > 0 ? std::min(1.0, std::abs(std::log(ns / before)) / std::log(4.0)) : 1;
  return {ns * times, graph::Origin::kScaled, distance * hardware::spreads().unmeasured, true};
}

}  // namespace foretrace::whatif
