#include "hardware/transfer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "hardware/cost_attention.hpp"
#include "hardware/cost_models.hpp"
#include "hardware/cost_product.hpp"
#include "hardware/cost_recurrent.hpp"
#include "hardware/law_conv.hpp"
#include "hardware/measured.hpp"
#include "hardware/spreads.hpp"
#include "hardware/transfer_rows.hpp"

namespace foretrace::hardware {

namespace {

// What no table holds follows what one does: the error of that, and of the step from one to the other, taken to be as large; no rows show it.
constexpr double kTwoSteps = std::numbers::sqrt2;

// Between boards of one architecture, products and attention measured on both leave as much whether bandwidths differ by a tenth (B200, GB200) or by a
// third (H100, H200).
double within_silicon(double sigma, const Device& from, const Device& to) {
  return same_silicon(from, to) ? std::min(sigma, spreads().same_silicon) : sigma;
}

Cost known(double ns, double sigma, graph::Origin origin) {
  Cost cost;
  cost.ns = ns;
  cost.sigma = sigma;
  cost.origin = origin;
  cost.known = true;
  return cost;
}

// The roofline there. A kernel that beats it here does less than its operands' sizes say, and does so there too.
double bound_ns(double measured_ns, const Work& work, const Device& from, const Device& to) {
  const double here = roofline_ns(work, from);
  return roofline_ns(work, to) * (here > measured_ns ? measured_ns / here : 1.0);
}

// Of log time: what leaving single GPUs and whole generations out of the fit shows, as parameters say it (tools/train_transfer.py --carried).
// More for kinds that no table holds (TF32, convolutions' gradients).
double product_sigma(const Work& work, ProductKind kind, bool known, const ProductWeights& there) {
  const bool held_by_a_table =
      is_conv(work) ? kind == ProductKind::kConv && work.family == Family::kConvForward : kind != ProductKind::kTf32;
  if (!held_by_a_table) return kTwoSteps * there.spread_new;
  return known ? there.spread_known : there.spread_new;
}

// Convolutions are known from one table (3 x 3, forward, FP32): beyond the ratios of what they could be bound by, the model says more
// about its parameters than about them.
double within_rates(double ratio, const Work& work, const Device& from, const Device& to) {
  const double rates[] = {from.tflops(work.dtype) / to.tflops(work.dtype), from.streaming_gbs() / to.streaming_gbs(),
                          1.0 * from.sm_count / to.sm_count * from.clock_mhz / to.clock_mhz};
  const auto [least, most] = std::minmax_element(std::begin(rates), std::end(rates));
  return std::isfinite(*least) && std::isfinite(*most) ? std::clamp(ratio, *least, *most) : ratio;
}

// Of a convolution on tensor cores over channels-first tensors: the share of its time that changes their layout and back.
double layout_share(const Work& work, const Device& d) {
  const auto* conv = std::get_if<Convolution>(&work.kind);
  if (conv == nullptr || conv->channels_last || product_of(work, d).dtype == Dtype::kFp32) return 0;
  const Cost whole = predict(work, d);
  const Cost product = predict(with_layout(work, true), d);
  // A guard against tables that say the product takes nothing: a tenth of the whole is left to it.
  return whole.known && product.known ? std::clamp(1 - product.ns / whole.ns, 0.0, 0.9) : 0;
}

// The law of the work's kind. Copies into another layout are not in it: laid_out_transfer moves them.
double law_us(const Work& work, const TransferWeights& weights, const Device& d) {
  if (!is_conv(work)) return best_product_us(work, weights, d);
  return convolution_us(work.dtype == Dtype::kFp32 ? work : with_layout(work, true), weights, d);
}

// To silicon that convolutions were measured on: what the tables tell of it there is as good a witness as the transfer, each by its own
// spread. The tables speak of the device they were measured on; the law carries that to its relatives.
void witnessed(double& ns, double& sigma, const Work& work, const TransferWeights& weights, const Device& to) {
  const Device& tables = measured_device();
  if (!is_conv(work) || !same_silicon(to, tables)) return;
  const Work lies = work.dtype == Dtype::kFp32 ? work : with_layout(work, true);
  const ModelledTime told = measured_model(lies, tables);
  if (!(told.us > 0) || !std::isfinite(told.us)) return;
  const double there = told.us * 1e3 * law_us(work, weights, to) / law_us(work, weights, tables);
  const double weight = sigma * sigma / (sigma * sigma + told.sigma * told.sigma);
  ns = std::exp((1 - weight) * std::log(ns) + weight * std::log(there));
  sigma *= std::sqrt(1 - weight);
}

Cost product_transfer(double measured_ns, const Work& work, const Device& from, const Device& to,
                      const TransferContext& context) {
  const TransferWeights& weights = context.parameters();
  const Product here = product_of(work, from);
  const Product there = product_of(work, to);
  const double before = law_us(work, weights, from) * 1e3;
  double after = law_us(work, weights, to) * 1e3;
  if (!(before > 0) || !(after > 0)) return {};
  const bool same = same_silicon(from, to);
  const bool known_here = weights.knows(fitted_kind(here), from);
  const bool known_there = weights.knows(fitted_kind(there), to);
  const ProductWeights& target = weights.of(fitted_kind(there), to);
  double sigma = product_sigma(work, there.kind, known_there, target);
  double ns = after;
  // What a tensor-core kernel misses says nothing about the fp32 kernel that stands in for it.
  if (here.kind == there.kind) {
    if (is_conv(work) && !same) {
      const double ratio = best_product_us(work, weights, to) / best_product_us(work, weights, from);
      after *= within_rates(ratio, work, from, to) / ratio;
    }
    const double missed = std::log(measured_ns / before);
    const double common = context.common[static_cast<std::size_t>(here.kind)];
    // What all products share is theirs where the model knows the origin, mostly the origin's own where it does not; and what
    // convolutions share, cuDNN's version and its choice of algorithms.
    const double shared = same ? 1.0 : known_here && !is_conv(work) ? target.common_known : target.common_new;
    const double theirs = same ? common : std::clamp(common, -target.most_common, target.most_common);
    ns = after * std::exp(shared * theirs + carried_miss(missed - common, target, same));
  } else {
    sigma = std::max(sigma, kTwoSteps * target.spread_new);
  }
  sigma = within_silicon(sigma, from, to);
  if (!same) witnessed(ns, sigma, work, weights, to);
  return known(std::max(ns, bound_ns(measured_ns, work, from, to)), sigma, graph::Origin::kModelled);
}

// The product follows the product's model, the changes of layout follow memory; a target without tensor cores needs none.
Cost laid_out_transfer(double measured_ns, const Work& work, const Device& from, const Device& to,
                       const TransferContext& context) {
  const double share = layout_share(work, from);
  Cost cost = product_transfer(measured_ns * (1 - share), work, from, to, context);
  if (share <= 0 || !cost.known) return cost;
  const double reached = context.streaming_gbs > 0 ? context.streaming_gbs : from.streaming_gbs();
  if (product_of(work, to).dtype != Dtype::kFp32) cost.ns += measured_ns * share * reached / to.streaming_gbs();
  return cost;
}

// Fused attention and recurrent layers by their laws, the GPU's own parameters where it was measured. What the law misses here it misses
// there. Attention was measured forward on four GPUs, the rest on one: there bands are wide.
Cost law_transfer(double measured_ns, double ratio, double sigma, const Work& work, const Device& from,
                  const Device& to) {
  if (!(ratio > 0)) return {};
  return known(std::max(measured_ns * ratio, bound_ns(measured_ns, work, from, to)), within_silicon(sigma, from, to),
               graph::Origin::kModelled);
}

Cost recurrent_transfer(double measured_ns, const Work& work, const Recurrent& rnn, const Device& from,
                        const Device& to, const TransferContext& context) {
  const auto law = [&](const Device& d) {
    return recurrent_us(work, rnn, context.parameters(), context.known_laws(), d);
  };
  const double here = law(from);
  return law_transfer(measured_ns, here > 0 ? law(to) / here : 0, spreads().unmeasured, work, from, to);
}

// A product that a what-if made TF32: never slower there than in strict FP32, whose time is known, and just that where there is no TF32.
Cost tf32_transfer(double measured_ns, const Work& work, const Device& from, const Device& to,
                   const TransferContext& context) {
  const Cost strict = product_transfer(work.strict_ns, with_dtype(work, Dtype::kFp32), from, to, context);
  if (to.tflops_tf32 <= 0) return strict;
  const Cost fast = laid_out_transfer(measured_ns, work, from, to, context);
  return !fast.known || (strict.known && strict.ns < fast.ns) ? strict : fast;
}

}  // namespace

Cost transfer(double measured_ns, double operation_ns, const Work& work, const KernelShape& shape, const Device& from,
              const Device& to) {
  return transfer(measured_ns, operation_ns, work, shape, from, to, TransferContext{});
}

const TransferWeights& TransferContext::parameters() const {
  return weights != nullptr ? *weights : TransferWeights::shipped();
}

const Laws& TransferContext::known_laws() const { return laws != nullptr ? *laws : Laws::shipped(); }

void TransferContext::learn(std::span<const Work> works, std::span<const double> operation_ns, const Device& from) {
  std::array<double, kKinds> time = {};
  std::array<double, kKinds> sum = {};
  for (std::size_t i = 0; i < works.size(); ++i) {
    const Work& w = works[i];
    if (!(operation_ns[i] > 0) || !(w.family == Family::kGemm || is_conv(w))) continue;
    const Product p = product_of(w, from);
    if (p.m <= 0 || p.n <= 0 || p.k <= 0) continue;
    const auto kind = static_cast<std::size_t>(p.kind);
    const double model = law_us(w, parameters(), from) * 1e3;
    const double product = operation_ns[i] * (1 - layout_share(w, from));
    time[kind] += product;
    sum[kind] += product * std::log(product / model);
  }
  for (std::size_t k = 0; k < kKinds; ++k) common[k] = time[k] > 0 ? sum[k] / time[k] : 0;
  streaming_gbs = learnt_streaming_gbs(works, operation_ns, from);
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
    if (const auto* attention = std::get_if<work::Attention>(&work.kind)) {
      const double ratio = attention_ratio(work, *attention, context.known_laws(), from, to);
      cost =
          law_transfer(operation_ns, ratio, work.backward ? spreads().unmeasured : spreads().attention, work, from, to);
    } else if (const auto* rnn = std::get_if<Recurrent>(&work.kind)) {
      cost = recurrent_transfer(operation_ns, work, *rnn, from, to, context);
    } else if (work.strict_ns > 0 && work.dtype == Dtype::kTf32 && !depthwise) {
      cost = tf32_transfer(operation_ns, work, from, to, context);
    } else if (!depthwise) {
      cost = laid_out_transfer(operation_ns, work, from, to, context);
    }
    if (cost.known) {
      cost.ns *= part;
      return cost;
    }
    if (!depthwise) {
      // Without shapes: the peak rates' ratio is all there is.
      const double ratio = from.tflops(work.dtype) / to.tflops(work.dtype);
      return known(measured_ns * ratio, spreads().unmeasured, graph::Origin::kAnalytic);
    }
  }
  if (const auto* copy = std::get_if<MemoryCopy>(&work.kind); copy != nullptr && copy->host) {
    // Hosts differ by more than the generation of the link says.
    const double start = kernel_start_us(measured_ns / 1e3) * 1e3;
    const double slower = from.pcie_gbs > 0 && to.pcie_gbs > 0 ? from.pcie_gbs / to.pcie_gbs : 1;
    return known(start + (measured_ns - start) * slower, spreads().unmeasured, graph::Origin::kScaled);
  }
  const double us = row_kernel_us(measured_ns / 1e3, part, work, shape, from, to, context.streaming_gbs);
  // Another vendor's compiler makes other kernels of the same source.
  const bool seen = work.bytes() > 0 && from.vendor == to.vendor;
  const double sigma = seen ? spreads().same_kernel : spreads().unmeasured;
  return known(us * 1e3, within_silicon(sigma, from, to), graph::Origin::kScaled);
}

}  // namespace foretrace::hardware
