#include "hardware/cost_norm.hpp"

#include <algorithm>
#include <string>

#include "hardware/cost_streaming.hpp"

namespace foretrace::hardware {

namespace {

// Launches of bn_fw_tr_1C11_kernel_NCHW and bn_bw_1C11_kernel_new in traces of an H200; on a V100 the blocks are as large, with 64 and 40 registers.
constexpr int kThreads = 512;
constexpr int kRegistersForward = 48, kRegistersBackward = 32;
// A channel of so many bytes is read once and kept. Of the tables on an H200 (kernel_features.cpp).
constexpr double kOnChip = 150e3;

// Blocks of these kernels that an SM holds.
int held_blocks(bool backward, const Device& d) {
  const int by_registers = d.registers_per_sm / (kThreads * (backward ? kRegistersBackward : kRegistersForward));
  return std::max(1, std::min(d.threads_per_sm / kThreads, by_registers));
}

}  // namespace

double channel_norm_us(const Work& w, const Laws& laws, const Device& d) {
  const auto* norm = std::get_if<work::BatchNorm>(&w.kind);
  if (norm == nullptr || norm->channels_last || w.dtype == work::Dtype::kBf16 || d.vendor != "nvidia") return 0;
  const double channels = static_cast<double>(norm->input[1]);
  const double pixels = static_cast<double>(norm->input[2] * norm->input[3]);
  const double channel = static_cast<double>(norm->input[0]) * pixels;
  const double bytes = channel * static_cast<double>(bytes_of(w.dtype));
  if (!(channels > 0) || !(pixels > 1) || bytes * (w.backward ? 2 : 1) <= kOnChip || d.sm_count <= 0) return 0;
  std::string kind = w.backward ? "channel norm bwd" : "channel norm fwd";
  const StreamingWeights* p = laws.streaming(kind.append(is_half(w.dtype) ? " half" : " fp32"), d);
  if (p == nullptr || !(p->block > 0)) return 0;
  // Sums first, then the result: the input twice, of the gradient both inputs.
  const double moved = bytes * channels * (w.backward ? 5 : 3);
  const Device fed = with_l2_hits({moved, just_written(w)}, d);
  const double turns = std::max(1.0, channels / held_blocks(w.backward, d) / d.sm_count);
  const double clocks = channel * (1 / p->block + p->plane / pixels);
  return streaming_us({p->start, moved / (fed.streaming_gbs() * 1e3), turns * clocks / clock_of(d)}, *p);
}

}  // namespace foretrace::hardware
