// A kernel that stays the same on another GPU: element-wise work, norms, reductions, copies, optimizers.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "hardware/architecture.hpp"
#include "hardware/conv_tensors.hpp"
#include "hardware/cost_streaming.hpp"
#include "hardware/transfer.hpp"

namespace foretrace::hardware {

namespace {

// A kernel that stays the same is two things everywhere: how far its accesses fall short of what memory can do, and how much it computes for
// each byte. Its measured time shows one number, so both follow from one, `pace`: times longer than memory needs. Near 1 a kernel waits for
// memory on every GPU, and what is missing is the pattern of its accesses. Far above it computes: arithmetic grows with the `sharp`-th power,
// the shortfall with the root. The origin's own balance of arithmetic and memory decides which it is: a GPU with little bandwidth is not
// busy computing where one with much would be. The same function of the pace gives the time on every GPU, so a kernel that moves and comes back
// takes what it took.
//
// The slope of the logarithm stays between 0.5 / sharp and sharp / 0.5 by construction, however different two GPUs are.
class Pace {
 public:
  /// `memory_us`: its bytes at the bandwidth that is reached; `arithmetic_us`: what it computes at a pace of 1.
  Pace(double memory_us, double arithmetic_us, const StreamingWeights& p)
      : memory_(memory_us), arithmetic_(arithmetic_us), p_(p) {}

  [[nodiscard]] double time(double pace) const { return streaming_us({0, memory_ * missed(pace), computed(pace)}, p_); }

  /// The pace at which it takes so long.
  [[nodiscard]] double of(double us) const {
    // Both parts grow: the answer is between a kernel that only computes and one that only waits.
    double low = -20, high = 20;  // of the logarithm
    double x = std::clamp(std::log(us / memory_), low, high);
    for (int i = 0; i < 60 && high - low > 1e-13; ++i) {
      const double pace = std::exp(x);
      const double wait = memory_ * missed(pace), handled = computed(pace);
      const double error = std::log(streaming_us({0, wait, handled}, p_) / us);
      (error > 0 ? high : low) = x;
      if (std::abs(error) < 1e-13) break;
      const double of_wait = std::pow(wait, p_.overlap), of_handled = std::pow(handled, p_.overlap);
      const double slope = (of_wait * missed_slope(pace) + of_handled * p_.sharp) / (of_wait + of_handled);
      x -= error / slope;
      if (!(x > low && x < high)) x = (low + high) / 2;
    }
    return std::exp(x);
  }

 private:
  static constexpr double kBend = 4;  // how sharply the shortfall turns from the pace to its root

  [[nodiscard]] double missed(double pace) const {
    const double bent = (1 + std::pow(pace / p_.slack, kBend)) / (1 + std::pow(1 / p_.slack, kBend));
    return pace * std::pow(bent, -0.5 / kBend);  // 1 at a pace of 1
  }
  [[nodiscard]] double missed_slope(double pace) const { return 1 - 0.5 / (1 + std::pow(pace / p_.slack, -kBend)); }
  [[nodiscard]] double computed(double pace) const { return arithmetic_ * std::pow(pace, p_.sharp); }

  double memory_, arithmetic_;
  const StreamingWeights& p_;
};

// 0 far below 1, 1 far above.
double step(double x, double sharpness) { return x <= 0 ? 0 : 1 / (1 + std::pow(x, -sharpness)); }

// Bytes that a kernel moves up to which L2 still holds what was just written when it reads it: in a step its producer ran right before it, and moved
// about as much.
double l2_room(const Device& d, const StreamingWeights& p) {
  return p.reach * architecture_of(d).l2_share * d.l2_mb * 1e6;
}

// The share of it that L2 holds.
double held(double bytes, const Device& d, const StreamingWeights& p) {
  const double room = l2_room(d, p);
  return room > 0 ? 1 - step(bytes / room, p.step) : 0;
}

double memory_us(const Moved& moved, double gbs, const Device& d, const StreamingWeights& p) {
  const double l2_gbs = std::max(gbs, p.l2_rate * architecture_of(d).l2_rate * d.sm_count * clock_of(d) * 1e-3);
  const double hits = std::min(moved.hot, moved.bytes) * held(moved.bytes, d, p);
  return 1e-3 * ((moved.bytes - hits) / gbs + hits / l2_gbs);
}

// Without sizes a kernel that fills the GPU is taken to stream, one that leaves SMs idle to wait: for its clock, and for more waves where there
// are fewer SMs.
double without_sizes_us(double start, double work, double slower, const KernelShape& shape, const Device& from,
                        const Device& to, const StreamingWeights& p) {
  const double blocks = static_cast<double>(shape.blocks);
  const double full = blocks > 0 ? std::min(1.0, blocks / from.sm_count) : 1.0;
  const double waves = std::max(1.0, blocks / to.sm_count) / std::max(1.0, blocks / from.sm_count);
  return streaming_us(
      {start, std::pow(full, 1 / p.overlap) * work * slower, std::pow(1 - full, 1 / p.overlap) * work * waves}, p);
}

}  // namespace

double just_written(const Work& w) {
  const bool cold = w.of_parameters || w.family == Family::kOptimizer || std::holds_alternative<Gather>(w.kind);
  if (cold) return 0;
  if (const auto* conv = std::get_if<Convolution>(&w.kind)) {
    const ConvTensors t = tensors_of(*conv);
    return static_cast<double>((w.family == Family::kConvForward ? t.in : t.out) * bytes_of(w.dtype));
  }
  return std::min(w.bytes_read, static_cast<double>(w.elements * bytes_of(w.dtype)));
}

Device with_l2_hits(const Moved& moved, const Device& d) {
  Device fed = d;
  if (moved.bytes > 0) {
    fed.bandwidth_gbs *=
        moved.bytes / (d.streaming_gbs() * 1e3) / memory_us(moved, d.streaming_gbs(), d, any_streaming());
  }
  return fed;
}

double kernel_start_us(double measured_us) {
  return measured_us * empty_kernel_us() / (measured_us + empty_kernel_us());
}

double same_kernel_us(double measured_us, const Moved& moved, const KernelShape& shape, const Device& from,
                      const Device& to, double from_gbs) {
  return same_kernel_us(measured_us, moved, shape, from, to, from_gbs, any_streaming());
}

double same_kernel_us(double measured_us, const Moved& moved, const KernelShape& shape, const Device& from,
                      const Device& to, double from_gbs, const StreamingWeights& p) {
  if (!(measured_us > 0)) return measured_us;
  const double start = kernel_start_us(measured_us);
  const double work = measured_us - start;
  const double reached = from_gbs > 0 ? from_gbs : from.streaming_gbs();
  if (!(moved.bytes > 0)) return without_sizes_us(start, work, reached / to.streaming_gbs(), shape, from, to, p);
  const auto on = [&](const Device& d, double gbs) {
    return Pace(memory_us(moved, gbs, d, p), moved.bytes * p.intensity * 1e-6 / usable_tflops(shape.blocks, d), p);
  };
  const double pace = on(from, reached).of(work);
  // Faster than memory: all of it was in L2, if L2 is as large, which helps there as far as it fits; or it moved fewer bytes than its operands hold,
  // and does so there too, as any kernel below `fastest` does.
  const double all = p.reach * moved.bytes;
  const double lost = std::max(0.0, held(all, from, p) - held(all, to, p)) * step(pace / p.fastest, p.step);
  return start + on(to, to.streaming_gbs()).time(pace + std::max(0.0, 1 - pace) * lost);
}

double learnt_streaming_gbs(std::span<const Work> works, std::span<const double> operation_ns, const Device& from) {
  // Below, a part of the traffic never reaches memory.
  const double least = std::max(20e6, 2 * l2_room(from, any_streaming()));
  std::vector<std::pair<double, double>> seen;  // GB/s, ns
  double all = 0;
  for (std::size_t i = 0; i < works.size(); ++i) {
    const Work& w = works[i];
    const bool streams = w.family == Family::kElementwise || w.family == Family::kOptimizer;
    if (!streams || w.bytes() < least || w.access != Access::kContiguous ||
        !(operation_ns[i] > 2e3 * empty_kernel_us())) {
      continue;
    }
    const double ns = operation_ns[i] - 1e3 * empty_kernel_us();
    seen.emplace_back(std::min(w.bytes() / ns, from.bandwidth_gbs), ns);
    all += ns;
  }
  if (seen.empty()) return from.streaming_gbs();
  // Some also compute: the upper quartile streams.
  std::sort(seen.begin(), seen.end());
  double below = 0;
  double reached = seen.back().first;
  for (const auto& [gbs, ns] : seen) {
    below += ns;
    if (below < 0.75 * all) continue;
    reached = gbs;
    break;
  }
  constexpr double kPriorKernels = 4;  // the device file counts as much as this many kernels: an assumption
  const double n = static_cast<double>(seen.size());
  return from.streaming_gbs() * std::pow(reached / from.streaming_gbs(), n / (n + kPriorKernels));
}

}  // namespace foretrace::hardware
