#include "foretrace/hardware/transfer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hardware/cost_models.hpp"
#include "hardware/transfer_product.hpp"

namespace foretrace::hardware {

namespace {

// How arithmetic and memory traffic overlap in kernels that stay the same: over 440,000 pairs of 13 element-wise and row-wise
// operations on five GPUs, exponents of 1, 1.5, 2 and 3 leave 7.6, 6.9, 6.9 and 7.1 % (docs/gpus.md).
constexpr double kOverlap = 2;
// Kernels faster than memory ran out of L2, but none by more than this: below, fewer bytes moved than their operands hold.
constexpr double kFastest = 0.3;
// Beyond a factor of two the model lacks something the kernel has (odd alignment, another algorithm), and the target has it too.
constexpr double kNoise = 0.7;

bool same_silicon(const Device& a, const Device& b) {
  return a.vendor == b.vendor && a.compute_major == b.compute_major && a.compute_minor == b.compute_minor;
}

// How far two GPUs of one architecture are apart: 0 for twins, 1 from half as much again in any figure that counts.
double distance(const Device& a, const Device& b) {
  double most = 0;
  for (const double ratio :
       {a.streaming_gbs() / b.streaming_gbs(), a.tflops_fp32 / b.tflops_fp32,
        static_cast<double>(a.sm_count) / b.sm_count, a.tflops(Dtype::kBf16) / b.tflops(Dtype::kBf16)}) {
    most = std::max(most, std::abs(std::log(ratio)));
  }
  return std::min(1.0, most / std::log(1.5));
}

Cost known(double ns, double sigma, graph::Origin origin) {
  Cost cost;
  cost.ns = ns;
  cost.sigma = sigma;
  cost.origin = origin;
  cost.known = true;
  return cost;
}

// Arithmetic in fp32 TFLOP/s the kernel's blocks can use: few blocks leave SMs idle.
double usable_tflops(const KernelShape& shape, const Device& d) {
  if (shape.blocks <= 0) return d.tflops_fp32;
  const double clock = d.clock_mhz > 0 ? d.clock_mhz : 1500;
  return std::min(d.tflops_fp32, static_cast<double>(shape.blocks) * flops_per_clock(Dtype::kFp32, d) * clock * 1e-6);
}

}  // namespace

Status can_transfer(const Device& from, const Device& to) {
  for (const Device* d : {&from, &to}) {
    if (d->vendor == "nvidia") continue;
    return fail(ErrorCode::kDeclined,
                fmt::format("kernels of {} ({}) are not measured, so nothing can be carried over", d->name, d->vendor),
                "the devices of vendor nvidia in `foretrace list devices` can be asked for");
  }
  return {};
}

double same_kernel_us(double measured_us, double bytes, const KernelShape& shape, const Device& from,
                      const Device& to) {
  const double start = std::min(measured_us, kEmptyKernelUs);
  const double work = measured_us - start;
  const double memory = bytes / (from.streaming_gbs() * 1e3);
  const double memory_there = bytes / (to.streaming_gbs() * 1e3);
  // Few blocks and little traffic: latency, which the clock moves little.
  if (work <= 0) return measured_us;
  if (memory <= 0) {
    // Without sizes a kernel of many waves is taken to stream; one that left SMs idle keeps its time where it still does.
    const double streamed = start + work * from.streaming_gbs() / to.streaming_gbs();
    const bool small = shape.blocks > 0 && shape.blocks < from.sm_count;
    if (!small) return streamed;
    return shape.blocks <= to.sm_count ? measured_us : std::max(measured_us, streamed);
  }
  const double rate = usable_tflops(shape, from) / usable_tflops(shape, to);
  if (work > memory) {
    const double rest = std::pow(std::pow(work, kOverlap) - std::pow(memory, kOverlap), 1 / kOverlap);
    return start + std::pow(std::pow(memory_there, kOverlap) + std::pow(rest * rate, kOverlap), 1 / kOverlap);
  }
  // Faster than memory: its operands were in L2, which helps there as far as they fit.
  const double share = work / memory;
  const bool stays = bytes <= to.l2_mb * 1e6 || share < kFastest;
  return start + memory_there * (stays ? share : 1.0);
}

namespace {

// The roofline there. A kernel that beats it here does less than its operands' sizes say, and does so there too.
double bound_ns(double measured_ns, const Work& work, const Device& from, const Device& to) {
  const double here = roofline_ns(work, from);
  return roofline_ns(work, to) * (here > measured_ns ? measured_ns / here : 1.0);
}

Cost product_transfer(double measured_ns, const Work& work, const Device& from, const Device& to,
                      const TransferContext& context) {
  const TransferWeights& weights = context.parameters();
  const Product here = product_of(work, from);
  const Product there = product_of(work, to);
  if (here.m <= 0 || here.n <= 0 || here.k <= 0) return {};
  const ProductWeights& target = weights.of(there.kind, to);
  const double before = product_us(here, weights.of(here.kind, from), from) * 1e3;
  const double after = product_us(there, target, to) * 1e3;
  const double missed = std::log(measured_ns / before);
  const double own = missed - context.common[static_cast<std::size_t>(here.kind)];
  const double noise = std::clamp(own, -kNoise, kNoise);
  const double carry = same_silicon(from, to) ? 1.0 : target.carry_other;
  // What a tensor-core kernel misses says nothing about the fp32 kernel that stands in for it.
  const double ns = here.kind == there.kind ? after * std::exp(missed - noise + carry * noise) : after;
  // Leave-one-GPU-out errors of docs/gpus.md; more for kinds that no table holds (TF32, convolutions' gradients).
  double sigma = there.kind == ProductKind::kHalf ? 0.12 : there.kind == ProductKind::kConv ? 0.22 : 0.2;
  if (is_conv(work)) sigma = std::max(sigma, work.family == Family::kConvForward ? 0.22 : 0.3);
  if (there.dtype == Dtype::kTf32) sigma = std::max(sigma, 0.2);
  if (same_silicon(from, to)) sigma *= 0.5 * distance(from, to);
  return known(std::max(ns, bound_ns(measured_ns, work, from, to)), sigma, graph::Origin::kModelled);
}

// Work whose kernels no table holds on several GPUs: the roofline's ratio, with its wide band.
Cost roofline_transfer(double measured_ns, const Work& work, const Device& from, const Device& to) {
  const auto ideal = [&](const Device& d) {
    const ProductWeights& p = TransferWeights::shipped().of(product_of(work, d).kind, d);
    const double tflops = sustained_tflops(product_of(work, d).dtype, p, d);
    return std::max(work.flops / (tflops * 1e3), work.bytes() / d.streaming_gbs());
  };
  if (work.flops <= 0) return {};
  return known(std::max(measured_ns * ideal(to) / ideal(from), bound_ns(measured_ns, work, from, to)),
               same_silicon(from, to) ? 0.15 * distance(from, to) : 0.3, graph::Origin::kModelled);
}

}  // namespace

Cost transfer(double measured_ns, double operation_ns, const Work& work, const KernelShape& shape, const Device& from,
              const Device& to) {
  return transfer(measured_ns, operation_ns, work, shape, from, to, TransferContext{});
}

const TransferWeights& TransferContext::parameters() const {
  return weights != nullptr ? *weights : TransferWeights::shipped();
}

void TransferContext::learn(std::span<const Work> works, std::span<const double> operation_ns, const Device& from) {
  std::array<double, kKinds> time = {};
  std::array<double, kKinds> sum = {};
  for (std::size_t i = 0; i < works.size(); ++i) {
    const Work& w = works[i];
    if (!(operation_ns[i] > 0) || !(w.family == Family::kGemm || is_conv(w))) continue;
    const Product p = product_of(w, from);
    if (p.m <= 0 || p.n <= 0 || p.k <= 0) continue;
    const auto kind = static_cast<std::size_t>(p.kind);
    const double model = product_us(p, parameters().of(p.kind, from), from) * 1e3;
    time[kind] += operation_ns[i];
    sum[kind] += operation_ns[i] * std::log(operation_ns[i] / model);
  }
  for (std::size_t k = 0; k < kKinds; ++k) common[k] = time[k] > 0 ? sum[k] / time[k] : 0;
}

Cost transfer(double measured_ns, double operation_ns, const Work& work, const KernelShape& shape, const Device& from,
              const Device& to, const TransferContext& context) {
  if (same_device(from, to)) return known(measured_ns, 0, graph::Origin::kMeasured);
  if (work.family == Family::kCommunication || !(measured_ns > 0)) return {};
  const double part = operation_ns > 0 ? measured_ns / operation_ns : 1.0;
  if (is_product(work)) {
    const auto* conv = std::get_if<Convolution>(&work.kind);
    const bool depthwise = conv != nullptr && conv->depthwise();
    Cost cost;
    if (work.family == Family::kAttention || work.family == Family::kRnn) {
      cost = roofline_transfer(operation_ns, work, from, to);
    } else if (!depthwise) {
      cost = product_transfer(operation_ns, work, from, to, context);
    }
    if (cost.known) {
      cost.ns *= part;
      return cost;
    }
    if (!depthwise) {
      // Without shapes: the peak rates' ratio is all there is.
      const double ratio = from.tflops(work.dtype) / to.tflops(work.dtype);
      return known(measured_ns * ratio, 0.35, graph::Origin::kAnalytic);
    }
  }
  if (const auto* copy = std::get_if<MemoryCopy>(&work.kind); copy != nullptr && copy->host) {
    if (from.pcie_gbs <= 0 || to.pcie_gbs <= 0) return known(measured_ns, 0.3, graph::Origin::kScaled);
    const double start = std::min(measured_ns, kEmptyKernelUs * 1e3);
    return known(start + (measured_ns - start) * from.pcie_gbs / to.pcie_gbs, 0.2, graph::Origin::kScaled);
  }
  const double us = same_kernel_us(measured_ns / 1e3, work.bytes() * part, shape, from, to);
  const double sigma = work.bytes() > 0 ? 0.09 : 0.35;
  return known(us * 1e3, same_silicon(from, to) ? sigma * distance(from, to) : sigma, graph::Origin::kScaled);
}

}  // namespace foretrace::hardware
