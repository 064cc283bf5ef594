// How well measured operations tell each other's times, by pool, as JSON lines for tools/fit_kernels.py; or the scales of
// the pools, fitted anew.
//
//   kernel_figures
//   kernel_figures --fit [POOL]      only pools whose names start so
//   kernel_figures --further [POOL]  the same, the search going on from the scales they have
//   kernel_figures --clocks          clocks fitted anew, for tools/fit_clocks.py
//   kernel_figures --samples         pool, shape, layer, residual, its error with the layer left out, features

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "kernel_fit.hpp"

int main(int argc, char** argv) {
  using namespace foretrace::hardware;  // NOLINT(google-build-using-namespace): a program, not a header
  const std::string_view asked = argc > 1 ? argv[1] : "";
  if (asked == "--fit" || asked == "--further") {
    for (const PoolScales& p : fit_pools(argc > 2 ? argv[2] : "", asked == "--further")) {
      fmt::print("{},{},{:.3g},{:.3f},{:.3g},{},{:.3g},", p.pool, p.samples, p.spread, p.autotuning, p.scales.noise,
                 p.scales.smooth ? "smooth" : "rough", p.scales.middle);
      for (std::size_t f = 0; f < p.features; ++f) fmt::print("{}{:.3g}", f > 0 ? " " : "", p.scales.scales[f]);
      fmt::print("\n");
    }
    return 0;
  }
  if (asked == "--clocks") {
    for (const FittedClock& c : fit_clocks()) fmt::print("{},{:.2g},{},{:.3f}\n", c.name, c.clocks, c.rows, c.off);
    return 0;
  }
  if (asked == "--samples") {
    for (const MeasuredPool& p : measured_pools()) {
      for (std::size_t i = 0; i < p.samples.size(); ++i) {
        const Neighbours::Sample& s = p.samples[i];
        fmt::print("{},{},{},{:.6g},{:.6g},{:.6g}\n", p.name, s.shape, s.group, s.value, p.layer_left_out[i],
                   fmt::join(s.at, " "));
      }
    }
    return 0;
  }
  for (const LeftOutChange& c : left_out_changes()) {
    fmt::print("{{\"pool\":\"{}\",\"change\":\"{}\",\"errors\":[{:.4f}]}}\n", c.pool, c.what, fmt::join(c.errors, ","));
  }
  for (const LeftOutFamily& f : left_out_families()) {
    fmt::print("{{\"pool\":\"{}\",\"without\":\"{}\",\"errors\":[{:.4f}]}}\n", f.pool, f.what,
               fmt::join(f.errors, ","));
  }
  for (const MeasuredPool& p : measured_pools()) {
    fmt::print("{{\"pool\":\"{}\",\"errors\":[{:.4f}],\"shape_alone\":[{:.4f}]}}\n", p.name,
               fmt::join(p.layer_left_out, ","), fmt::join(p.shape_left_out, ","));
  }
  return 0;
}
