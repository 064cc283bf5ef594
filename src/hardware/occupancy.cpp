#include "hardware/occupancy.hpp"

#include <algorithm>
#include <cmath>

namespace foretrace::hardware {

namespace {

constexpr std::int64_t kWarp = 32;
// Registers are given to warps in units of 256 on every GPU since Kepler.
constexpr std::int64_t kRegisterUnit = 256;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

// An SM is built from parts that each own a share of the registers: two in the P100, four elsewhere.
std::int64_t parts_of_sm(const Device& d) { return d.compute_major == 6 && d.compute_minor == 0 ? 2 : 4; }

// Since Ampere the driver keeps 1 KiB of shared memory for itself in every block, and the unit is 128 bytes, not 256.
std::int64_t reserved_shared(const Device& d) { return d.compute_major >= 8 ? 1024 : 0; }
std::int64_t shared_unit(const Device& d) { return d.compute_major >= 8 ? 128 : 256; }

}  // namespace

Occupancy occupancy(const KernelShape& k, const Device& d) {
  constexpr std::int64_t kMostThreads = 1024;  // of one block, on every GPU since Fermi
  if (k.threads <= 0 || k.threads > kMostThreads) return {};
  Occupancy best{INT64_MAX, Limit::kNone};
  const auto at_most = [&](std::int64_t blocks, Limit limit) {
    if (blocks < best.blocks_per_sm) best = {blocks, limit};
  };
  const std::int64_t warps = (k.threads + kWarp - 1) / kWarp;
  if (d.threads_per_sm > 0) at_most(d.threads_per_sm / kWarp / warps, Limit::kThreads);
  if (d.blocks_per_sm > 0) at_most(d.blocks_per_sm, Limit::kBlocks);
  if (k.registers > 0 && d.registers_per_sm > 0) {
    const std::int64_t parts = parts_of_sm(d);
    const std::int64_t per_warp = round_up(k.registers * kWarp, kRegisterUnit);
    // A block that needs more registers than there are cannot start; warps are spread over the parts.
    const bool too_large = per_warp * round_up(warps, parts) > d.registers_per_sm;
    const std::int64_t resident = d.registers_per_sm / parts / per_warp * parts;
    at_most(too_large ? 0 : resident / warps, Limit::kRegisters);
  }
  if (d.shared_kb_per_sm > 0) {
    const auto available = static_cast<std::int64_t>(d.shared_kb_per_sm * 1024);
    const std::int64_t needed = round_up(k.shared_bytes + reserved_shared(d), shared_unit(d));
    if (needed > 0) at_most(available / needed, Limit::kShared);
  }
  return best.blocks_per_sm == INT64_MAX ? Occupancy{} : best;
}

std::int64_t blocks_per_wave(const KernelShape& k, const Device& d) {
  return occupancy(k, d).blocks_per_sm * d.sm_count;
}

double waves(const KernelShape& k, const Device& d) {
  const std::int64_t wave = blocks_per_wave(k, d);
  return wave > 0 && k.blocks > 0 ? static_cast<double>(k.blocks) / static_cast<double>(wave) : 0;
}

int achieved_occupancy_pct(const KernelShape& k, const Device& d) {
  if (d.sm_count <= 0 || d.threads_per_sm <= 0) return 0;
  const double given = static_cast<double>(k.blocks) / d.sm_count;
  const double resident = std::min(static_cast<double>(occupancy(k, d).blocks_per_sm), given);
  return static_cast<int>(std::lround(100.0 * resident * static_cast<double>(k.threads) / d.threads_per_sm));
}

}  // namespace foretrace::hardware
