// Matrix products: the best tile's waves over the SMs, or the memory traffic, whichever is longer.

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "hardware/cost_models.hpp"

namespace foretrace::hardware {

namespace {

// Tiles libraries choose from; a library picks the fastest, and so does the model. The minimum of functions that grow with
// m, n and k grows with them too.
constexpr std::array<std::pair<int, int>, 14> kTiles = {{{256, 128}, {128, 256}, {192, 128}, {128, 192}, {128, 128},
                                                         {256, 64}, {64, 256}, {128, 64}, {64, 128}, {64, 64},
                                                         {64, 32}, {32, 64}, {64, 16}, {16, 64}}};

struct Rates {
  double launch_us = 3.0;   // start, prologue and epilogue
  double share = 0.92;      // of the peak rate, for a tile without operand traffic
  double traffic = 15.75;   // tile edge (harmonic) at which operand traffic halves the rate
  double start_k = 120;     // steps of k a tile loses to filling its pipeline
  double memory = 0.78;     // of peak bandwidth
  double sigma = 0.09;
};

}  // namespace

Model gemm_model(const Work& w, const Device& d) {
  if (w.m <= 0 || w.n <= 0 || w.k <= 0 || d.sm_count <= 0) return {};
  Rates r;
  double peak = d.tflops(w.dtype);
  if (w.dtype == Dtype::kFp32) {
    r.share = 0.80;
    r.traffic = 4;
    r.start_k = 32;
  } else if (w.dtype == Dtype::kTf32) {
    r.share = w.weight_grad ? 0.58 : 0.92;
  } else {
    const auto aligned = [&](std::int64_t v) { return w.m % v == 0 && w.n % v == 0 && w.k % v == 0; };
    // Not divisible by 8: no bulk copies, an older kernel; odd: one element at a time.
    if (!aligned(8)) r.share *= aligned(2) ? 0.33 : 0.18;
  }
  const double per_sm = peak * 1e6 / d.sm_count;  // operations per us
  const double m = static_cast<double>(w.m), n = static_cast<double>(w.n), k = static_cast<double>(w.k);
  double best = INFINITY;
  for (const auto& [tm, tn] : kTiles) {
    const double tiles = static_cast<double>(w.batch) * std::ceil(m / tm) * std::ceil(n / tn);
    const double edge = static_cast<double>(tm) * tn / (tm + tn);
    const double rate = per_sm * r.share * edge / (edge + r.traffic);
    for (const double split : {1.0, 2.0, 4.0, 8.0, 16.0}) {
      if (split > 1 && k / split < 256) break;
      const double waves = std::max(1.0, tiles * split / d.sm_count);
      double t = waves * 2 * tm * tn * (k / split + r.start_k) / rate;
      if (split > 1) t += 1.0 + split * m * n * static_cast<double>(w.batch) * 4 / (d.bandwidth_gbs * 1.5e3);
      best = std::min(best, t);
    }
  }
  const double memory = w.bytes() / (d.bandwidth_gbs * r.memory * 1e3);
  const double both = std::pow(std::pow(best, 4) + std::pow(memory, 4), 0.25);
  return {r.launch_us + both, r.sigma};
}

}  // namespace foretrace::hardware
