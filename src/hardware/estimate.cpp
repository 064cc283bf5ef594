// What a piece of work takes on a device: from its law and residual alone, and from the time it took before a change.

#include "hardware/estimate.hpp"

#include <algorithm>
#include <cmath>

#include "hardware/board_power.hpp"
#include "hardware/choice/chooser.hpp"
#include "hardware/cost_models.hpp"
#include "hardware/cost_product.hpp"
#include "hardware/kernel_features.hpp"
#include "hardware/law_conv.hpp"
#include "hardware/residual.hpp"
#include "hardware/spreads.hpp"
#include "hardware/tables.hpp"

namespace foretrace::hardware {

namespace {

/// Work whose time is known.
struct Known {
  const Work& work;
  double us;
};

// The law times the residual; 0 where that knows nothing.
Estimate measured_estimate(const Work& w, const Tables& t, const Device& d, const std::optional<Known>& known = {}) {
  const std::optional<KernelFeatures> asked = kernel_features(w, d, t);
  if (!asked) return {};
  std::optional<Residual::Observation> observed;
  if (known) {
    std::optional<KernelFeatures> features = kernel_features(known->work, d, t);
    if (!features || known->us <= 0) return {};
    observed = Residual::Observation{std::move(*features), known->us};
  }
  const std::optional<Residual::Answer> residual = t.residual().at(*asked, d, observed);
  return residual ? Estimate{asked->law_us * std::exp(residual->value), residual->sigma} : Estimate{};
}

// What autotuning makes of the estimate of a convolution: the direct kernel's where it keeps that.
Estimate after_autotuning(const Estimate& grouped, const Work& w, const Tables& t, const Device& d) {
  if (!(grouped.us > 0) || !tries_direct_kernel(w)) return grouped;
  const StreamingWeights* looped = t.laws().streaming("direct", d);
  const Estimate direct = direct_convolution(w, t, d);
  return looped != nullptr && keeps_direct_kernel(grouped.us, direct.us, looped->loop_factor) ? direct : grouped;
}

struct EstimateOfKind {
  const Work& w;
  const Tables& t;
  const Device& d;

  Estimate operator()(std::monostate) const { return {}; }
  Estimate operator()(const Gemm& g) const {
    if (g.m <= 0 || g.n <= 0 || g.k <= 0 || d.sm_count <= 0) return {};
    if (const Estimate measured = measured_estimate(w, t, d); measured.us > 0) return measured;
    // No table holds similar work: the error is that of products on a GPU that was not measured.
    return {best_product_us(w, t.products(), d), t.products().of(fitted_kind(product_of(w, d)), d).spread_new};
  }
  Estimate operator()(const Convolution&) const { return after_autotuning(measured_estimate(w, t, d), w, t, d); }
  Estimate operator()(const Attention&) const { return measured_estimate(w, t, d); }
  Estimate operator()(const Recurrent&) const { return measured_estimate(w, t, d); }
  Estimate operator()(const Pointwise& k) const { return pointwise_model(w, k, t, d); }
  Estimate operator()(const MemoryCopy& k) const { return memory_model(w, k, t, d); }
  // Norms, pooling, rows and gathers. Without any measured kernel like it: half the rate, an assumption.
  template <class Kind>
  Estimate operator()(const Kind& /*kind*/) const {
    if (const Estimate measured = measured_estimate(w, t, d); measured.us > 0) return measured;
    if (w.elements <= 0 || w.bytes() <= 0) return {};
    return {2 * (empty_kernel_us() + stream_us(w.bytes(), d)), spreads().unmeasured};
  }
};

// Sizes no tensor can have make times that are none.
Estimate finite(const Estimate& time) { return std::isfinite(time.us) ? time : Estimate{}; }

Cost known(double ns, double sigma, Origin origin) { return {ns, origin, sigma, true}; }

std::int64_t alignment_class(const Work& w) {
  const auto* gemm = std::get_if<Gemm>(&w.kind);
  return gemm == nullptr ? 8 : std::min<std::int64_t>(gemm->alignment(), 8);
}

// Families whose kernel stays alike when shape or element type change: a ratio carries what the model does not know.
bool kernel_stays(const Work& was, const Work& becomes) {
  if (was.family != becomes.family || was.access != becomes.access) return false;
  if (channels_last(was) != channels_last(becomes)) return false;
  // Another precision or alignment class of a product runs other kernels.
  return !is_product(was) || (was.dtype == becomes.dtype && alignment_class(was) == alignment_class(becomes));
}

// Whether work along rows runs in a kernel like the measured ones, which are the framework's own: what a compiler generated (a
// fusion: a sum with all that leads to it) may take a quarter of their time, and grows as its own bytes do. Beyond what one in two
// hundred of the tables' own rows is off, and three standard deviations of its neighbours, it is another's.
bool matches_measured_kernel(double measured_ns, const Work& was, const Tables& t, const Device& d) {
  if (is_product(was)) return true;
  const Estimate here = estimate(was, t, d);
  return !(here.us > 0) ||
         std::abs(std::log(measured_ns / 1e3 / here.us)) <= std::max(t.of(d).own_kernel, 3 * here.sigma);
}

bool same_work(const Work& a, const Work& b) {
  return a.family == b.family && a.dtype == b.dtype && a.out_dtype == b.out_dtype && a.access == b.access &&
         a.backward == b.backward && a.flops == b.flops && a.bytes_read == b.bytes_read &&
         a.bytes_written == b.bytes_written && a.elements == b.elements && a.kind == b.kind;
}

}  // namespace

Estimate estimate(const Work& w, const Tables& t, const Device& d) {
  return finite(std::visit(EstimateOfKind{w, t, d}, w.kind));
}

double roofline_ns(const Work& w, const Device& d) {
  // What fits in L2 may never reach memory, so traffic bounds the time only beyond it.
  const double beyond = std::max(0.0, w.bytes() - d.l2_mb * 1e6);
  const double memory = d.bandwidth_gbs > 0 ? beyond / d.bandwidth_gbs : 0;
  double peak = is_product(w) ? d.tflops(w.dtype) * highest_clock(w.dtype, d) : 0;
  // Strict fp32 convolutions may use algorithms with fewer multiplications than the definition's (Winograd, FFT), and where TF32 is allowed
  // a library may still choose those: it does where TF32 multiplies no faster than fp32.
  if (is_conv(w) && (w.dtype == Dtype::kFp32 || w.dtype == Dtype::kTf32))
    peak = std::max(peak, 4 * d.tflops(Dtype::kFp32) * highest_clock(Dtype::kFp32, d));
  const double compute = peak > 0 ? w.flops / (peak * 1e3) : 0;
  return std::max(memory, compute);
}

const Device& measured_device(const Device& device) { return Tables::shipped().of(device).convolutions_on; }

Cost predict(const Work& work, const Device& device) { return predict(work, device, Tables::shipped()); }

Cost predict(const Work& work, const Device& device, const Tables& tables) {
  const Estimate found = estimate(work, tables, device);
  if (!(found.us > 0)) return {};
  return known(std::max(found.us * 1e3, roofline_ns(work, device)), found.sigma, Origin::kModelled);
}

Cost rescale(double measured_ns, const Work& was, const Work& becomes, const Device& device) {
  return rescale(measured_ns, was, becomes, device, Tables::shipped());
}

Cost rescale(double measured_ns, const Work& was, const Work& becomes, const Device& device, const Tables& tables) {
  if (same_work(was, becomes)) return known(measured_ns, 0, Origin::kMeasured);
  // A kernel that was faster than its bytes allow did not move them all, and what it becomes will not either. And the floor of a
  // launch does not shrink.
  const double bound = std::max(measured_ns < roofline_ns(was, device) ? 0 : roofline_ns(becomes, device),
                                std::min(measured_ns, empty_kernel_us() * 1e3));
  const bool stays = kernel_stays(was, becomes);
  // The operation itself, as it was measured, is an observation of the residual of what it becomes.
  if (was.family == becomes.family && matches_measured_kernel(measured_ns, was, tables, device)) {
    const Known measured{was, measured_ns / 1e3};
    const Estimate from =
        after_autotuning(finite(measured_estimate(becomes, tables, device, measured)), becomes, tables, device);
    if (from.us > 0) {
      return known(std::max(from.us * 1e3, bound), from.sigma, stays ? Origin::kScaled : Origin::kModelled);
    }
  }
  const Estimate before = estimate(was, tables, device), after = estimate(becomes, tables, device);
  if (before.us > 0 && after.us > 0 && stays) {
    const double ratio = after.us / before.us;
    // The further from what was measured, the more of the model's own error remains: all of it at a factor of four, which nobody
    // measured.
    const double distance = std::min(1.0, std::abs(std::log(ratio)) / std::log(4.0));
    return known(std::max(measured_ns * ratio, bound), distance * after.sigma, Origin::kScaled);
  }
  return after.us > 0 ? predict(becomes, device, tables) : Cost{};
}

}  // namespace foretrace::hardware
