#include "hardware/transfer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "hardware/choice/chooser.hpp"
#include "hardware/cost_attention.hpp"
#include "hardware/cost_models.hpp"
#include "hardware/cost_product.hpp"
#include "hardware/cost_recurrent.hpp"
#include "hardware/estimate.hpp"
#include "hardware/law_conv.hpp"
#include "hardware/measured.hpp"
#include "hardware/spreads.hpp"
#include "hardware/tables.hpp"
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

Cost known(double ns, double sigma, Origin origin) { return {ns, origin, sigma, true}; }

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

// Tensor cores load 16 bytes at a time: products whose rows are not whole multiples of that run in other kernels, on every GPU. How much longer those
// take than the same product filled up is what the tables of measured products say.
double misaligned(const Work& work, const Tables& tables, const Device& d) {
  const auto* gemm = std::get_if<work::Gemm>(&work.kind);
  if (gemm == nullptr || product_of(work, d).dtype == Dtype::kFp32) return 1;
  const std::int64_t together = 16 / work::bytes_of(work.dtype);
  if (gemm->alignment() >= together) return 1;
  const auto filled = [&](std::int64_t side) { return (side + together - 1) / together * together; };
  const Work whole = gemm_work(gemm->batch, filled(gemm->m), filled(gemm->n), filled(gemm->k), work.dtype);
  const Device& measured = measured_device(d);
  const Cost as_is = predict(work, measured, tables), aligned = predict(whole, measured, tables);
  return as_is.known && aligned.known ? std::max(1.0, as_is.ns / aligned.ns) : 1;
}

// The law of the work's kind, without copies into another layout. A convolution of a step reads what a norm or an activation just wrote.
double law_us(const Work& work, const TransferContext& context, const Device& d) {
  const Tables& tables = context.parameters();
  if (!is_conv(work)) return best_product_us(work, tables.products(), d);
  if (context.alone) return convolution_us(in_kernel_layout(work), tables, d);
  return convolution_us(in_kernel_layout(work), tables, with_l2_hits({work.bytes(), just_written(work)}, d));
}

// What changes of layout take on a GPU: kernels that copy, for those tensors that its convolutions neither read nor write as they are.
double layout_copies_us(const Work& work, const Tables& tables, const Device& d) {
  double us = 0;
  for (const LayoutChange& change : layout_changes(work, d)) {
    us += predict(work::relayout_work(change.elements, work.dtype), d, tables).ns / 1e3;
  }
  return us;
}

// Of a convolution on tensor cores over channels-first tensors: what it takes longer for changes of layout, and the rest. How much longer it takes than
// over channels-last ones is known of measured GPUs; elsewhere copies and product follow their laws.
struct InParts {
  double changes_ns = 0, rest_ns = 0;
};

InParts in_parts(const Work& work, const TransferContext& context, const Device& d) {
  const auto* conv = std::get_if<Convolution>(&work.kind);
  if (conv == nullptr || conv->channels_last || product_of(work, d).dtype == Dtype::kFp32) return {};
  const Tables& tables = context.parameters();
  const Device& measured = measured_device(d);
  const Cost whole = predict(work, measured, tables), product = predict(with_layout(work, true), measured, tables);
  const double copied = layout_copies_us(work, tables, measured);
  const double law = law_us(work, context, measured);
  if (!whole.known || !product.known || !(copied > 0) || !(law > 0)) return {};
  return {std::max(0.0, whole.ns - product.ns) * layout_copies_us(work, tables, d) / copied,
          product.ns * law_us(work, context, d) / law};
}

// The share of such a convolution's time on a GPU that changes the layout and back.
double layout_share(const Work& work, const TransferContext& context, const Device& d) {
  const InParts parts = in_parts(work, context, d);
  if (!(parts.changes_ns > 0)) return 0;
  // A guard against tables that say the product takes nothing: a tenth of the whole is left to it.
  return std::min(0.9, parts.changes_ns / (parts.changes_ns + parts.rest_ns));
}

Cost product_transfer(double measured_ns, const Work& work, const Device& from, const Device& to,
                      const TransferContext& context) {
  const Tables& tables = context.parameters();
  const TransferWeights& weights = tables.products();
  const Product here = product_of(work, from);
  const Product there = product_of(work, to);
  double before = law_us(work, context, from) * 1e3;
  double after = law_us(work, context, to) * 1e3;
  if (!(before > 0) || !(after > 0)) return {};
  // As far as its time shows it; and without tensor cores where that is faster, for those kernels load single elements.
  const double odd = std::clamp(measured_ns / before, 1.0, misaligned(work, tables, from));
  if (odd > 1 && there.dtype != Dtype::kFp32) {
    before *= odd;
    after = std::max(after, std::min(odd * after, law_us(with_dtype(work, Dtype::kFp32), context, to) * 1e3));
  }
  const bool known_there = weights.knows(fitted_kind(there), to);
  const ProductWeights& target = weights.of(fitted_kind(there), to);
  Cost cost = known(after, product_sigma(work, there.kind, known_there, target), Origin::kModelled);
  // What a tensor-core kernel misses says nothing about the fp32 kernel that stands in for it.
  if (here.kind == there.kind) {
    const Residual::Shown shown{fitted_kind(here), std::log(measured_ns / before),
                                context.common[static_cast<std::size_t>(here.kind)]};
    // Of convolutions only those in FP32 were measured on several GPUs; what those miss, shapes in half precision and TF32 miss too.
    const ProductKind kind = is_conv(work) ? ProductKind::kConv : fitted_kind(there);
    cost.ns = after * std::exp(tables.residual().elsewhere(shown, kind, from, to));
  } else {
    cost.sigma = std::max(cost.sigma, kTwoSteps * target.spread_new);
  }
  cost.sigma = within_silicon(cost.sigma, from, to);
  cost.ns = std::max(cost.ns, bound_ns(measured_ns, work, from, to));
  return cost;
}

// A convolution that goes to a GPU whose convolutions were measured: what the tables say of it there, times what this one misses here. That is
// seen against what the same convolution of the tables would take here: a GPU that is held back by its peak rate shows nothing of what its law
// misses, and need not.
Cost to_measured_convolution(double measured_ns, const Work& work, const Device& from, const Device& to,
                             const TransferContext& context) {
  const Tables& tables = context.parameters();
  const Cost there = predict(in_kernel_layout(work), to, tables);
  if (!there.known) return product_transfer(measured_ns, work, from, to, context);
  TransferContext nothing_common = context;
  nothing_common.common = {};
  const Cost back = product_transfer(there.ns, work, to, from, nothing_common);
  Cost cost = product_transfer(measured_ns, work, from, to, context);
  if (!cost.known || !back.known) return cost;
  const double correlation = tables.residual().correlation(ProductKind::kConv, from, to);
  cost.ns = there.ns * std::exp(correlation * std::log(measured_ns / back.ns));
  cost.ns = std::max(cost.ns, bound_ns(measured_ns, work, from, to));
  return cost;
}

// The product follows the product's model, the changes of layout the kernels that copy.
Cost transfer_with_layout_copies(double measured_ns, const Work& work, const Device& from, const Device& to,
                                 const TransferContext& context) {
  const Tables& tables = context.parameters();
  const double share = layout_share(work, context, from);
  const bool measured = is_conv(work) && same_silicon(to, measured_device(to)) && !same_silicon(from, to);
  const auto move = measured ? to_measured_convolution : product_transfer;
  Cost cost = move(measured_ns * (1 - share), work, from, to, context);
  if (!cost.known) return cost;
  const double here = share > 0 ? layout_copies_us(work, tables, from) : 0;
  if (here > 0) cost.ns += measured_ns * share * layout_copies_us(work, tables, to) / here;
  // Kernels without tensor cores read the tensors as they are, those that take their place there do not.
  const bool first_there = product_of(work, from).dtype == Dtype::kFp32 && product_of(work, to).dtype != Dtype::kFp32;
  if (first_there) cost.ns += in_parts(work, context, to).changes_ns;
  return cost;
}

// Fused attention and recurrent layers by their laws, the GPU's own parameters where it was measured. What the law misses here it misses
// there. Attention was measured forward on four GPUs, the rest on one: there bands are wide.
Cost law_transfer(double measured_ns, double ratio, double sigma, const Work& work, const Device& from,
                  const Device& to) {
  if (!(ratio > 0)) return {};
  return known(std::max(measured_ns * ratio, bound_ns(measured_ns, work, from, to)), within_silicon(sigma, from, to),
               Origin::kModelled);
}

Cost recurrent_transfer(double measured_ns, const Work& work, const Recurrent& rnn, const Device& from,
                        const Device& to, const TransferContext& context) {
  const auto law = [&](const Device& d) {
    return recurrent_us(work, rnn, context.parameters().products(), context.parameters().laws(), d);
  };
  const double here = law(from);
  return law_transfer(measured_ns, here > 0 ? law(to) / here : 0, spreads().unmeasured, work, from, to);
}

// A product that a what-if made TF32: never slower there than in strict FP32, whose time is known, and just that where there is no TF32.
Cost tf32_transfer(double measured_ns, const Work& work, const Device& from, const Device& to,
                   const TransferContext& context) {
  const Cost strict = product_transfer(work.strict_ns, with_dtype(work, Dtype::kFp32), from, to, context);
  if (to.tflops_tf32 <= 0) return strict;
  const Cost fast = transfer_with_layout_copies(measured_ns, work, from, to, context);
  return !fast.known || (strict.known && strict.ns < fast.ns) ? strict : fast;
}

}  // namespace

const Tables& TransferContext::parameters() const { return tables != nullptr ? *tables : Tables::shipped(); }

void TransferContext::learn(std::span<const Work> works, std::span<const double> operation_ns, const Device& from) {
  std::array<double, kKinds> time = {};
  std::array<double, kKinds> sum = {};
  for (std::size_t i = 0; i < works.size(); ++i) {
    const Work& w = works[i];
    if (!(operation_ns[i] > 0) || !(w.family == Family::kGemm || is_conv(w))) continue;
    const Product p = product_of(w, from);
    if (p.m <= 0 || p.n <= 0 || p.k <= 0) continue;
    const auto kind = static_cast<std::size_t>(p.kind);
    const double model = law_us(w, *this, from) * 1e3;
    const double product = operation_ns[i] * (1 - layout_share(w, *this, from));
    time[kind] += product;
    sum[kind] += product * std::log(product / model);
  }
  for (std::size_t k = 0; k < kKinds; ++k) common[k] = time[k] > 0 ? sum[k] / time[k] : 0;
  streaming_gbs = learnt_streaming_gbs(works, operation_ns, from);
}

Cost transfer(double measured_ns, double operation_ns, const Work& work, const KernelShape& shape, const Device& from,
              const Device& to, const TransferContext& context) {
  if (same_device(from, to)) return known(measured_ns, 0, Origin::kMeasured);
  if (work.family == Family::kCommunication || !(measured_ns > 0)) return {};
  const double part = operation_ns > 0 ? measured_ns / operation_ns : 1.0;
  if (is_product(work)) {
    const auto* conv = std::get_if<Convolution>(&work.kind);
    const bool depthwise = conv != nullptr && conv->depthwise();
    Cost cost;
    if (const auto* attention = std::get_if<work::Attention>(&work.kind)) {
      const double ratio = attention_ratio(work, *attention, context.parameters().laws(), from, to);
      const bool measured = !work.backward && from.vendor == to.vendor;
      cost = law_transfer(operation_ns, ratio, measured ? spreads().attention : spreads().unmeasured, work, from, to);
    } else if (const auto* rnn = std::get_if<Recurrent>(&work.kind)) {
      cost = recurrent_transfer(operation_ns, work, *rnn, from, to, context);
    } else if (work.strict_ns > 0 && work.dtype == Dtype::kTf32 && !depthwise) {
      cost = tf32_transfer(operation_ns, work, from, to, context);
    } else if (!depthwise) {
      cost = transfer_with_layout_copies(operation_ns, work, from, to, context);
    }
    if (cost.known) {
      cost.ns *= part;
      return cost;
    }
    if (!depthwise) {
      // Without shapes: the peak rates' ratio is all there is.
      const double ratio = from.tflops(work.dtype) / to.tflops(work.dtype);
      return known(measured_ns * ratio, spreads().unmeasured, Origin::kAnalytic);
    }
  }
  if (const auto* copy = std::get_if<MemoryCopy>(&work.kind); copy != nullptr && copy->host) {
    // Hosts differ by more than the generation of the link says.
    const double start = kernel_start_us(measured_ns / 1e3) * 1e3;
    const double slower = from.pcie_gbs > 0 && to.pcie_gbs > 0 ? from.pcie_gbs / to.pcie_gbs : 1;
    return known(start + (measured_ns - start) * slower, spreads().unmeasured, Origin::kScaled);
  }
  const double us = row_kernel_us(measured_ns / 1e3, part, work, shape, from, to, context);
  // Another vendor's compiler makes other kernels of the same source.
  const bool seen = work.bytes() > 0 && from.vendor == to.vendor;
  const double sigma = seen ? spreads().same_kernel : spreads().unmeasured;
  return known(us * 1e3, within_silicon(sigma, from, to), Origin::kScaled);
}

}  // namespace foretrace::hardware
