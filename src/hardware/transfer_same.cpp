// A kernel that stays the same on another GPU: element-wise work, norms, reductions, copies, optimizers.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "foretrace/hardware/transfer.hpp"
#include "hardware/cost_models.hpp"

namespace foretrace::hardware {

namespace {

// Which part of a kernel's time memory explains. With x the time over what its bytes take (times kSlack), memory's share of the
// kOverlap-th powers is (1 + x^(kOverlap kSharp))^(-1/kSharp): 0.8 at x = 1, x^-2 far above. The logarithm's slope of the answer stays
// between 0 and 1 + kSharp by construction, however different the two ratios are. Over 440,000 pairs of 13 element-wise and
// row-wise operations on five GPUs (docs/gpus.md) this leaves 6.7 % on average; kSharp of 2 and 4 leave 7.9 and 6.4, kSlack of 1.0
// and 1.3 leave 8.6 and 6.5.
constexpr double kOverlap = 2;
constexpr double kSharp = 3;
constexpr double kSlack = 1.2;
// Kernels faster than memory ran out of L2, but none by more than about this: below, fewer bytes moved than their operands hold.
constexpr double kFastest = 0.3;
constexpr double kStep = 4;  // how sharply L2 and kFastest end

// Lanes of an SM that a block's few warps keep busy, two operations each: wider SMs need two blocks to be of use.
constexpr double kBlockFlops = 128;

// SMs of 128 lanes issue as many instructions in a clock as those of 64 before them (four schedulers since Volta; Pascal's issued two
// each): the lanes beyond 64 help multiplications, and nothing else a kernel does. Over 990 operations that are no products (adds,
// norms, softmax, copies, embeddings of whole models; docs/gpus.md) on an H100 and one of A100, V100, T4, P100, both ways, a third
// leaves 9.0 % on average and 4.8 in the median, all of them 15.6 and 9.6, none 11.4 and 6.4; pairs with an A100 and with a
// V100 alone choose the same third.
constexpr double kNarrowLanes = 64;
constexpr double kBeyondNarrow = 1.0 / 3;

double issued_tflops(const Device& d) {
  const double clock = d.rated_clock_mhz > 0 ? d.rated_clock_mhz : d.clock_mhz > 0 ? d.clock_mhz : kUsualClockMhz;
  const double lanes = d.tflops_fp32 * 1e6 / (2.0 * std::max(1, d.rated_sms > 0 ? d.rated_sms : d.sm_count) * clock);
  const bool pascal = d.vendor == "nvidia" && d.compute_major < 7;
  if (pascal || !(lanes > kNarrowLanes)) return d.tflops_fp32;
  return d.tflops_fp32 * (kNarrowLanes + kBeyondNarrow * (lanes - kNarrowLanes)) / lanes;
}

// Arithmetic in fp32 TFLOP/s the kernel's blocks can use: few blocks leave SMs idle.
double usable_tflops(const KernelShape& shape, const Device& d) {
  const double all = issued_tflops(d);
  if (shape.blocks <= 0) return all;
  const double clock = d.clock_mhz > 0 ? d.clock_mhz : kUsualClockMhz;
  return std::min(all, static_cast<double>(shape.blocks) * kBlockFlops * clock * 1e-6);
}

double power_mean(double share, double a, double b) {
  return std::pow(share * std::pow(a, kOverlap) + (1 - share) * std::pow(b, kOverlap), 1 / kOverlap);
}

// 0 far below 1, 1 far above.
double step(double x) { return x <= 0 ? 0 : 1 / (1 + std::pow(x, -kStep)); }

}  // namespace

double kernel_start_us(double measured_us) {
  return measured_us * empty_kernel_us() / (measured_us + empty_kernel_us());
}

double same_kernel_us(double measured_us, double bytes, const KernelShape& shape, const Device& from, const Device& to,
                      double from_gbs) {
  if (!(measured_us > 0)) return measured_us;
  const double start = kernel_start_us(measured_us);
  const double work = measured_us - start;
  const double reached = from_gbs > 0 ? from_gbs : from.streaming_gbs();
  const double slower = reached / to.streaming_gbs();
  const double rate = usable_tflops(shape, from) / usable_tflops(shape, to);
  if (!(bytes > 0)) {
    // Without sizes a kernel that fills the GPU is taken to stream, one that leaves SMs idle to wait: for its clock, and for more
    // waves where there are fewer SMs.
    const double blocks = static_cast<double>(shape.blocks);
    const double full = blocks > 0 ? std::min(1.0, blocks / from.sm_count) : 1.0;
    const double waves = std::max(1.0, blocks / to.sm_count) / std::max(1.0, blocks / from.sm_count);
    return start + work * power_mean(full, slower, waves);
  }
  const double memory = bytes / (reached * 1e3);
  // Faster than memory: its operands were in L2, which helps there as far as they fit.
  const double lost = step(bytes / std::max(1.0, to.l2_mb * 1e6)) * step(work / (memory * kFastest));
  const double streamed = work + std::max(0.0, memory - work) * lost;
  const double x = std::clamp(streamed / (kSlack * memory), 1e-6, 1e6);
  const double share = std::pow(1 + std::pow(x, kOverlap * kSharp), -1 / kSharp);
  return start + power_mean(share, streamed * slower, work * rate);
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
  // Some compute beside: the upper quartile streams.
  std::sort(seen.begin(), seen.end());
  double below = 0;
  double reached = seen.back().first;
  for (const auto& [gbs, ns] : seen) {
    below += ns;
    if (below < 0.75 * all) continue;
    reached = gbs;
    break;
  }
  constexpr double kFew = 4;  // kernels that count as much as the file
  const double n = static_cast<double>(seen.size());
  return from.streaming_gbs() * std::pow(reached / from.streaming_gbs(), n / (n + kFew));
}

}  // namespace foretrace::hardware
