// How well measured kernels tell each other's times, by pool, as JSON lines for tools/fit_kernels.py.
//
//   kernel_figures

#include <fmt/format.h>

#include "hardware/cost_models.hpp"

int main() {
  for (const foretrace::hardware::MeasuredPool& p : foretrace::hardware::measured_pools()) {
    fmt::print("{{\"pool\":\"{}\",\"samples\":{},\"in_sample\":{:.6f},\"left_out\":{:.6f}}}\n", p.name, p.samples,
               p.in_sample, p.left_out);
  }
  return 0;
}
