#include "hardware/contention.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

namespace foretrace::hardware {

namespace {

/// "4x2", "2x1x1": numbers with an x between them.
struct Sizes {
  std::array<int, 3> at{};
  int product = 1;
  std::size_t count = 0;
};

Sizes sizes_of(std::string_view part) {
  Sizes out;
  while (true) {
    int value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || value <= 0 || value > 1024) return {};
    if (out.count == out.at.size()) return {};
    out.at[out.count++] = value;
    out.product *= value;
    part.remove_prefix(static_cast<std::size_t>(end - part.data()));
    if (part.empty()) return out;
    if (part.front() != 'x') return {};
    part.remove_prefix(1);
  }
}

std::int64_t busiest(std::int64_t units, std::int64_t places) { return (units + places - 1) / places; }

/// The sizes in a name, between underscores, in their order.
std::vector<Sizes> all_sizes(std::string_view name) {
  std::vector<Sizes> out;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find('_'), name.size());
    std::string_view part = name.substr(0, end);
    if (constexpr std::string_view kTile = "tilesize"; part.starts_with(kTile)) part.remove_prefix(kTile.size());
    if (const Sizes sizes = sizes_of(part); sizes.count >= 2) out.push_back(sizes);
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return out;
}

// Tiles of the result, laid so that fewer are needed: names do not say which side is the rows.
std::int64_t tiles_of(const LaunchedKernel& k) {
  const bool takes_tiles = k.name.starts_with("nvjet") || k.name.starts_with("sm90_xmma");
  const std::vector<Sizes> sizes = all_sizes(k.name);
  if (!takes_tiles || sizes.empty() || k.rows <= 0 || k.columns <= 0) return 0;
  const auto [a, b, depth] = sizes.front().at;
  return std::min(busiest(k.rows, a) * busiest(k.columns, b), busiest(k.rows, b) * busiest(k.columns, a));
}

}  // namespace

int cluster_blocks(std::string_view kernel) {
  // nvjet_sm90_tst_128x192_64x5_4x2_h_bz_coopB_NTN: tile, depth and stages, cluster. cutlass3x_sm90_…_128x256x64_2x1x1_0_…: tile, cluster.
  const bool nvjet = kernel.starts_with("nvjet");
  if (!nvjet && kernel.find("cutlass3x") == std::string_view::npos) return 1;
  constexpr int kMostInCluster = 16;  // CUDA's limit, and that only where a kernel asks for it
  const std::vector<Sizes> sizes = all_sizes(kernel);
  const std::size_t which = nvjet ? 2 : 1;
  return which < sizes.size() && sizes[which].product <= kMostInCluster ? sizes[which].product : 1;
}

double speed_during_collective(const LaunchedKernel& k, const Device& device, int taken) {
  const std::int64_t sms = device.sm_count;
  if (sms <= 0 || taken <= 0 || k.blocks <= 0) return 1;
  const std::int64_t tiles = k.blocks <= sms ? tiles_of(k) : 0;
  const std::int64_t cluster = cluster_blocks(k.name);
  constexpr int kPair = 2;  // SMs of a texture processing cluster, which a cluster of blocks shares out
  const std::int64_t left = std::max<std::int64_t>(1, sms - std::int64_t{taken} * (tiles > 0 ? kPair : 1));
  const auto places = [&](std::int64_t on) { return std::max<std::int64_t>(1, on / cluster); };
  if (tiles > 0) {
    const auto turns = [&](std::int64_t on) { return busiest(tiles, std::min(k.blocks, places(on) * cluster)); };
    const double longer = static_cast<double>(turns(left)) / static_cast<double>(turns(sms));
    const double begin = k.us > 0 ? std::min(k.begin_us / k.us, 1.0) : 0;
    return 1 / (begin + (1 - begin) * longer);
  }
  if (k.blocks == sms) return static_cast<double>(left) / static_cast<double>(sms);
  const std::int64_t units = busiest(k.blocks, cluster);
  return static_cast<double>(busiest(units, places(sms))) / static_cast<double>(busiest(units, places(left)));
}

}  // namespace foretrace::hardware
