#include "hardware/contention.hpp"

#include <algorithm>
#include <charconv>

namespace foretrace::hardware {

namespace {

/// "4x2", "2x1x1": numbers with an x between them, and how many.
struct Sizes {
  int product = 1;
  int count = 0;
};

Sizes sizes_of(std::string_view part) {
  Sizes out;
  while (true) {
    int value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || value <= 0 || value > 1024) return {};
    out.product *= value;
    ++out.count;
    part.remove_prefix(static_cast<std::size_t>(end - part.data()));
    if (part.empty()) return out;
    if (part.front() != 'x') return {};
    part.remove_prefix(1);
  }
}

std::int64_t blocks_of(const trace::KernelLaunch& launch) { return launch.grid[0] * launch.grid[1] * launch.grid[2]; }

std::int64_t busiest(std::int64_t units, std::int64_t places) { return (units + places - 1) / places; }

}  // namespace

int cluster_blocks(std::string_view kernel) {
  // nvjet_sm90_tst_128x192_64x5_4x2_h_bz_coopB_NTN: tile, depth and stages, cluster. cutlass3x_sm90_…_128x256x64_2x1x1_0_…: tile, cluster.
  const bool nvjet = kernel.starts_with("nvjet");
  if (!nvjet && kernel.find("cutlass3x") == std::string_view::npos) return 1;
  constexpr int kMostInCluster = 16;  // CUDA's limit, and that only where a kernel asks for it
  int seen = 0;
  while (!kernel.empty()) {
    const std::size_t end = std::min(kernel.find('_'), kernel.size());
    const Sizes sizes = sizes_of(kernel.substr(0, end));
    if (sizes.count >= 2 && ++seen == (nvjet ? 3 : 2)) return sizes.product <= kMostInCluster ? sizes.product : 1;
    kernel.remove_prefix(std::min(end + 1, kernel.size()));
  }
  return 1;
}

double speed_beside(const trace::KernelLaunch& launch, std::string_view kernel, const Device& device, int taken) {
  const std::int64_t sms = device.sm_count;
  const std::int64_t left = sms - taken;
  const std::int64_t blocks = blocks_of(launch);
  if (sms <= 0 || taken <= 0 || blocks <= 0) return 1;
  if (left <= 0) return 0;
  if (blocks == sms) return static_cast<double>(left) / static_cast<double>(sms);
  const std::int64_t cluster = cluster_blocks(kernel);
  const std::int64_t units = busiest(blocks, cluster);
  const auto places = [&](std::int64_t on) { return std::max<std::int64_t>(1, on / cluster); };
  return static_cast<double>(busiest(units, places(sms))) / static_cast<double>(busiest(units, places(left)));
}

}  // namespace foretrace::hardware
