#include "plan/utilisation.hpp"

namespace foretrace::plan {

std::optional<double> peak_of(const FlopsByType& products, const hardware::Device& device) {
  if (device.guessed_sigma > 0) return std::nullopt;
  double all = 0, seconds = 0;
  for (std::size_t i = 0; i < products.size(); ++i) {
    if (products[i] <= 0) continue;
    const auto dtype = static_cast<work::Dtype>(i);
    const bool rated = dtype != work::Dtype::kFp64 && dtype != work::Dtype::kInt && dtype != work::Dtype::kOther;
    const double tflops = rated ? device.tflops(dtype) : 0;
    if (tflops <= 0) return std::nullopt;
    all += products[i];
    seconds += products[i] / (tflops * 1e12);
  }
  return seconds > 0 ? std::optional(all / seconds) : std::nullopt;
}

}  // namespace foretrace::plan
