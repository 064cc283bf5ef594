#include "whatif/rewrite/decoding.hpp"

#include <algorithm>
#include <cmath>

#include "base/percentiles.hpp"
#include "base/text.hpp"
#include "whatif/model/fitting.hpp"
#include "work/op_names.hpp"

namespace foretrace::whatif {

namespace {

// Sequences at which multiplying by the weights takes as long as reading them; 0 where the GPU is unknown.
double balanced_sequences(const hardware::Device& device, work::Dtype dtype) {
  if (device.bandwidth_gbs <= 0 || device.streaming_gbs() <= 0) return 0;
  // Engines serve in half precision unless the name of a kernel says otherwise.
  const work::Dtype type = dtype == work::Dtype::kOther ? work::Dtype::kBf16 : dtype;
  const double flops_per_byte = device.tflops(type) * 1e3 / device.streaming_gbs();
  return flops_per_byte * static_cast<double>(work::bytes_of(type)) /
         2;  // a multiply-add for every weight and sequence
}

// Anything from `least` to `most`: the middle of the logarithms, and a band that reaches both.
hardware::Cost between(double least, double most) {
  const double sigma = std::abs(std::log(most / least)) / 2 / kTenthPercentile;
  return {std::sqrt(least * most), graph::Origin::kScaled, sigma, true};
}

}  // namespace

bool uses_experts(std::string_view kernel) {
  return contains_any(kernel,
                      {"moe", "MoE", "MOE", "matmul_ogs", "grouped_gemm", "GroupedGemm", "group_gemm", "expert"});
}

std::optional<hardware::Cost> decoded_product(const Model& m, const Row& row, double x) {
  const graph::StepNature nature = nature_of(m);
  if (nature.kind != graph::StepKind::kDecode || row.time <= 0) return std::nullopt;
  const std::string_view kernel = m.graph.task_name(row.tasks.front());
  const auto time = static_cast<double>(row.time);
  if (uses_experts(kernel)) return between(time, time * x);
  if (m.works[row.work].family != work::Family::kGemm) return std::nullopt;
  const double balanced = balanced_sequences(m.device, work::dtype_of_kernel(kernel));
  const auto sequences = static_cast<double>(nature.sequences);
  if (sequences > 0 && balanced > 0) {
    const double factor = std::max(1.0, sequences * x / balanced) / std::max(1.0, sequences / balanced);
    return hardware::Cost{time * factor, graph::Origin::kModelled, 0, true};
  }
  // Fewer sequences read the same weights; whether more of them only do that too depends on how many there are.
  if (x <= 1) return hardware::Cost{time, graph::Origin::kModelled, 0, true};
  return between(time, time * x);
}

double weight_reading_ns(const work::Work& work, const hardware::Device& device) {
  const auto* gemm = std::get_if<work::Gemm>(&work.kind);
  if (gemm == nullptr || gemm->batch != 1 || gemm->weight_grad || device.bandwidth_gbs <= 0) return 0;
  const double bytes =
      static_cast<double>(gemm->n) * static_cast<double>(gemm->k) * static_cast<double>(work::bytes_of(work.dtype));
  return bytes / device.bandwidth_gbs;  // GB/s are bytes per ns
}

}  // namespace foretrace::whatif
