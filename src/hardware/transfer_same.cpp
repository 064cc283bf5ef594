// A kernel that stays the same on another GPU: element-wise work, norms, reductions, copies, optimizers.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "hardware/cost_streaming.hpp"
#include "hardware/transfer.hpp"

namespace foretrace::hardware {

namespace {

// Which part of a kernel's time memory explains. With x the time over what its bytes take (times `slack`), memory's share of the
// `overlap`-th powers is (1 + x^(overlap sharp))^(-1/sharp): 0.8 at x = 1, x^-2 far above. The logarithm's slope of the answer stays
// between 0 and 1 + sharp by construction, however different the two ratios are. Kernels faster than memory ran out of L2, but none by more than
// about `fastest`: below, fewer bytes moved than their operands hold; `step`: how sharply L2 and that end.
struct Split {
  double memory = 0, handled = 0;  ///< us, such that the law makes the measured time of them
};

Split split(double share, double memory, double handled, double overlap) {
  return {std::pow(share, 1 / overlap) * memory, std::pow(1 - share, 1 / overlap) * handled};
}

// 0 far below 1, 1 far above.
double step(double x, double sharpness) { return x <= 0 ? 0 : 1 / (1 + std::pow(x, -sharpness)); }

}  // namespace

double kernel_start_us(double measured_us) {
  return measured_us * empty_kernel_us() / (measured_us + empty_kernel_us());
}

double same_kernel_us(double measured_us, double bytes, const KernelShape& shape, const Device& from, const Device& to,
                      double from_gbs) {
  return same_kernel_us(measured_us, bytes, shape, from, to, from_gbs, any_streaming());
}

double same_kernel_us(double measured_us, double bytes, const KernelShape& shape, const Device& from, const Device& to,
                      double from_gbs, const StreamingWeights& p) {
  if (!(measured_us > 0)) return measured_us;
  const double start = kernel_start_us(measured_us);
  const double work = measured_us - start;
  const double reached = from_gbs > 0 ? from_gbs : from.streaming_gbs();
  const double slower = reached / to.streaming_gbs();
  const double rate = usable_tflops(shape.blocks, from) / usable_tflops(shape.blocks, to);
  if (!(bytes > 0)) {
    // Without sizes a kernel that fills the GPU is taken to stream, one that leaves SMs idle to wait: for its clock, and for more
    // waves where there are fewer SMs.
    const double blocks = static_cast<double>(shape.blocks);
    const double full = blocks > 0 ? std::min(1.0, blocks / from.sm_count) : 1.0;
    const double waves = std::max(1.0, blocks / to.sm_count) / std::max(1.0, blocks / from.sm_count);
    const Split there = split(full, work * slower, work * waves, p.overlap);
    return streaming_us({start, there.memory, there.handled}, p);
  }
  const double memory = bytes / (reached * 1e3);
  // Faster than memory: its operands were in L2, which helps there as far as they fit.
  const double lost = step(bytes / std::max(1.0, to.l2_mb * 1e6), p.step) * step(work / (memory * p.fastest), p.step);
  const double streamed = work + std::max(0.0, memory - work) * lost;
  const double x = std::clamp(streamed / (p.slack * memory), 1e-6, 1e6);
  const double share = std::pow(1 + std::pow(x, p.overlap * p.sharp), -1 / p.sharp);
  const Split there = split(share, streamed * slower, work * rate, p.overlap);
  return streaming_us({start, there.memory, there.handled}, p);
}

double learnt_streaming_gbs(std::span<const Work> works, std::span<const double> operation_ns, const Device& from) {
  // Below twice L2 a part of the traffic never reaches memory.
  const double least = std::max(20e6, 2e6 * from.l2_mb);
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
  // Some compute alongside: the upper quartile streams.
  std::sort(seen.begin(), seen.end());
  double below = 0;
  double reached = seen.back().first;
  for (const auto& [gbs, ns] : seen) {
    below += ns;
    if (below < 0.75 * all) continue;
    reached = gbs;
    break;
  }
  constexpr double kFew = 4;  // kernels that count as much as the file; nobody measured how many should
  const double n = static_cast<double>(seen.size());
  return from.streaming_gbs() * std::pow(reached / from.streaming_gbs(), n / (n + kFew));
}

}  // namespace foretrace::hardware
