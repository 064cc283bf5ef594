#include "hardware/launch_shapes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace foretrace::hardware {

namespace {

using Size = std::int64_t;

Size div_up(Size a, Size b) { return a / b + (a % b != 0 ? 1 : 0); }
Size last_power(Size n) { return static_cast<Size>(std::bit_floor(static_cast<std::uint64_t>(std::max<Size>(1, n)))); }
int next_log(Size n) { return n <= 1 ? 0 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n) - 1)); }
Size threads_of(const Device& d) { return d.threads_per_sm > 0 ? d.threads_per_sm : 2048; }
Size resident_blocks(Size threads, const Device& d) {
  return std::max<Size>(1, d.sm_count * std::max<Size>(1, threads_of(d) / std::max<Size>(1, threads)));
}

constexpr Size kWarp = 32;

}  // namespace

ReductionShape reduction_shape(Size outputs, Size inputs, bool along, const Device& device, Size stretch) {
  constexpr Size kThreads = 512, kVector = 4, kFewValues = 16, kManyValues = 256, kVectorised = 128;
  outputs = std::max<Size>(1, outputs);
  inputs = std::max<Size>(1, inputs);
  ReductionShape s;
  Size side = !along ? outputs : stretch > 0 ? std::min(stretch, inputs) : inputs;  // elements that are contiguous
  const Size other = along ? outputs : inputs;
  if (along && outputs == 1 && side > kVectorised) side /= kVector;
  if (!along) {
    s.vector = kVector;
    while (outputs % s.vector != 0) s.vector /= 2;
    side /= s.vector;
  }
  const Size most = kThreads / s.vector;
  const Size wide = std::min(last_power(side), most);
  const Size high = std::min(last_power(other), most);
  Size width = std::min(wide, kWarp);
  const Size height = std::min(high, most / width);
  width = std::min(wide, most / height);
  Size in_step = along ? width : 1;
  Size out_step = along ? 1 : width;
  const Size each = div_up(inputs, in_step);
  const bool split = each >= height * kFewValues || each >= kManyValues;
  (split ? in_step : out_step) *= height;
  const Size grid = div_up(outputs / s.vector, out_step);
  s.lanes = width;
  s.resident = resident_blocks(width * height, device);
  s.values = div_up(inputs, in_step);
  if (split && s.values >= kManyValues && grid <= s.resident) {
    s.parts = std::max(std::min(div_up(s.resident, grid), div_up(s.values, kFewValues)), div_up(s.values, kManyValues));
    s.values = div_up(inputs, in_step * s.parts);
  }
  s.blocks = grid * s.parts;
  return s;
}

ScanShape scan_shape(Size rows, Size columns, const Device& device) {
  constexpr int kLogThreads = 9;
  const int log_lanes = std::clamp((kLogThreads + next_log(columns) - next_log(rows)) / 2, 4, kLogThreads);
  ScanShape s;
  s.lanes = Size{1} << log_lanes;
  s.blocks = div_up(std::max<Size>(1, rows), Size{1} << (kLogThreads - log_lanes));
  s.steps = div_up(std::max<Size>(1, columns), 2 * s.lanes);
  s.resident = resident_blocks(Size{1} << kLogThreads, device);
  return s;
}

bool many_blocks_topk(Size rows, Size columns) {
  struct Rule {
    Size rows, columns;  // up to so many rows from so many columns on
  };
  static constexpr Rule kRules[] = {{20, 20000}, {40, 10000}, {80, 8000}, {199, 5000}, {799, 3000}, {4000, 800}};
  for (const Rule& rule : kRules) {
    if (rows <= rule.rows) return columns >= rule.columns;
  }
  return columns >= 400;
}

ChannelsLastShape channels_last_shape(Size samples, Size channels, Size height, Size width, Size shared_bytes,
                                      const Device& device) {
  constexpr Size kThreads = 1024, kChannels = 4, kPixels = 2, kBlocks = 32;
  channels = std::max<Size>(1, channels), height = std::max<Size>(1, height), width = std::max<Size>(1, width);
  Size x = std::min(last_power(channels), kWarp);
  const Size y = std::min(last_power(width), kThreads / x);
  const Size z = std::min(last_power(height), kThreads / x / y);
  x = std::min(last_power(channels), kThreads / y / z);
  const Size slices = div_up(channels, x * kChannels);
  const Size across = div_up(width, y * kPixels);
  const Size down = div_up(height, z * kPixels);
  ChannelsLastShape s;
  s.threads = x * y * z;
  s.channels = div_up(channels, x * slices);
  s.pixels = div_up(div_up(width, across), y) * div_up(div_up(height, down), z);
  const Size shared = std::max<Size>(1, s.channels * s.threads * shared_bytes);
  const double held_bytes = device.shared_kb_per_sm * 1024;
  const Size by_memory = held_bytes > 0 ? static_cast<Size>(held_bytes) / shared : kBlocks;
  const Size held = std::clamp<Size>(std::min(threads_of(device) / s.threads, by_memory), 1, kBlocks);
  s.waves = static_cast<double>(samples) * static_cast<double>(slices) * static_cast<double>(across) *
            static_cast<double>(down) / static_cast<double>(held * std::max(1, device.sm_count));
  return s;
}

}  // namespace foretrace::hardware
