#include "overview/operations.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace foretrace::overview {
namespace {

// FLOP/ns the GPU allows: its peak for the element type, or what its memory feeds at this many FLOP per byte.
double roof(const hardware::Device& gpu, work::Dtype dtype, double flops_per_byte) {
  const double peak = gpu.tflops(dtype) * 1e3;
  const double fed = gpu.bandwidth_gbs * flops_per_byte;
  return peak > 0 && fed > 0 ? std::min(peak, fed) : 0;
}

}  // namespace

std::vector<OperationWork> operations_of(const analysis::Baseline& baseline) {
  const whatif::Model& m = baseline.model;
  std::vector<double> time(m.works.size(), 0);
  for (std::size_t t = 0; t < m.graph.size(); ++t) {
    if (const std::uint32_t row = m.works.row_of(t); row != kNone) time[row] += static_cast<double>(m.graph.cost[t]);
  }
  std::map<std::array<std::string, 3>, OperationWork> found;
  for (std::size_t row = 0; row < m.works.size(); ++row) {
    const work::Work& w = m.works[row];
    if (time[row] <= 0 || w.bytes() <= 0) continue;
    const std::string op = w.op_event != kNone ? std::string(m.trace->name(w.op_event)) : "";
    OperationWork& one = found[{op, std::string(to_string(w.family)), std::string(to_string(w.dtype))}];
    one.flops += w.flops;
    one.bytes += w.bytes();
    one.ns += time[row];
    ++one.kernels;
    const double limit = one.flops > 0 ? roof(m.device, w.dtype, one.flops / one.bytes) : 0;
    one.share_of_roof = limit > 0 ? std::optional(one.flops / one.ns / limit) : std::nullopt;
  }
  std::vector<OperationWork> out;
  for (auto& [key, one] : found) {
    out.push_back(std::move(one));
    out.back().operation = key[0];
    out.back().family = key[1];
    out.back().dtype = key[2];
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.ns > b.ns; });
  return out;
}

}  // namespace foretrace::overview
