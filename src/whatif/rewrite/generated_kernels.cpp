#include "whatif/rewrite/generated_kernels.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "foretrace/base/result.hpp"

namespace foretrace::whatif {

namespace {

struct Figures {
  double copy_start_us = 0, copy_share = 0;    ///< of a kernel that only moves data
  double fused_start_us = 0, fused_share = 0;  ///< of one that computes, too
  double in_place_share = 0;                   ///< of one that writes over what it read
  double statistics_share = 0;                 ///< of one that sums over all samples
  double finishing_us = 0;                     ///< a second stage of a sum
  double random_flop = 0;                      ///< FP32 operations for a random number, alongside the bytes
  double slow_flop = 0;                        ///< FP32 operations of a GELU, forward; the bytes hide behind them
  double gelu_gradient_flop = 0;  ///< of its gradient, which has an exponential alongside the error function

  static const Figures& of_inductor() {
    static const Figures kFigures = [] {
      Figures f;
      const std::pair<std::string_view, double*> places[] = {
          {"copy_start_us", &f.copy_start_us},   {"copy_share", &f.copy_share},
          {"fused_start_us", &f.fused_start_us}, {"fused_share", &f.fused_share},
          {"finishing_us", &f.finishing_us},     {"statistics_share", &f.statistics_share},
          {"in_place_share", &f.in_place_share}, {"random_flop", &f.random_flop},
          {"slow_flop", &f.slow_flop},           {"gelu_gradient_flop", &f.gelu_gradient_flop}};
      read_values(data_file("whatif/compilers/inductor.csv"), places);
      return f;
    }();
    return kFigures;
  }
};

}  // namespace

double gelu_gradient() { return Figures::of_inductor().gelu_gradient_flop / Figures::of_inductor().slow_flop; }

double time_of(const Generated& k, const hardware::Device& d) {
  const Figures& f = Figures::of_inductor();
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
