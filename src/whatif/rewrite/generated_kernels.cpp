#include "whatif/rewrite/generated_kernels.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/by_device.hpp"
#include "base/csv.hpp"

namespace foretrace::whatif {

namespace {

const CompilerFigures& figures_on(const hardware::Device& d) { return by_device<read_compiler_figures>(d.name); }

}  // namespace

CompilerFigures read_compiler_figures(const DataFiles& files, std::string_view device) {
  CompilerFigures f;
  const std::pair<std::string_view, double*> places[] = {
      {"copy_start_us", &f.copy_start_us},   {"copy_share", &f.copy_share},
      {"fused_start_us", &f.fused_start_us}, {"fused_share", &f.fused_share},
      {"finishing_us", &f.finishing_us},     {"statistics_share", &f.statistics_share},
      {"in_place_share", &f.in_place_share}, {"random_flop", &f.random_flop},
      {"slow_flop", &f.slow_flop},           {"gelu_gradient_flop", &f.gelu_gradient_flop}};
  read_values(files.measured("whatif/compilers", device, "inductor").text, places);
  return f;
}

double gelu_gradient(const hardware::Device& d) { return figures_on(d).gelu_gradient_flop / figures_on(d).slow_flop; }

double time_of(const Generated& k, const hardware::Device& d) { return time_of(k, d, figures_on(d)); }

double time_of(const Generated& k, const hardware::Device& d, const CompilerFigures& f) {
  const double stream = std::max(1e-3, d.streaming_gbs());
  const double flop_per_ns = std::max(1e-3, d.tflops_fp32 * 1e3);
  const double start = (k.copy ? f.copy_start_us : f.fused_start_us) * 1e3;
  const double rate = stream * (k.copy ? f.copy_share : k.in_place ? f.in_place_share : f.fused_share);
  double ns = k.finishing * f.finishing_us * 1e3;
  if (k.any()) {
    ns += start + std::max(k.bytes / rate, k.slow * f.slow_flop / flop_per_ns) + k.random * f.random_flop / flop_per_ns;
  }
  if (k.statistics > 0) ns += start + k.statistics / (stream * f.statistics_share);
  if (k.columns > 0) ns += start + k.columns / rate;
  return ns;
}

}  // namespace foretrace::whatif
