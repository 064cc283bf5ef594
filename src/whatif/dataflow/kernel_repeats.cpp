#include "whatif/dataflow/kernel_repeats.hpp"

#include <algorithm>

namespace foretrace::whatif {

namespace {

constexpr std::size_t kShortest = 4;
constexpr std::size_t kFewest = 3;
// Longer blocks are not looked for: the search takes items times lengths.
constexpr std::size_t kLongest = 1024;

}  // namespace

Repeats find_repeats(const std::vector<std::uint32_t>& sequence, std::size_t times) {
  Repeats best;
  const std::size_t n = sequence.size();
  for (std::size_t length = kShortest; length <= kLongest && length * kFewest <= n; ++length) {
    // Where an item is the same as the one a length later for r items in a row, there are r / length + 1 equal runs.
    std::size_t same = 0;
    for (std::size_t i = 0; i + length <= n; ++i) {
      const bool equal = i + length < n && sequence[i] == sequence[i + length];
      if (equal) {
        ++same;
        continue;
      }
      const std::size_t runs = same / length + 1;
      if (runs >= kFewest && (times == 0 || runs == times) && runs * length > best.times * best.length) {
        best = {i - same, length, runs};
      }
      same = 0;
    }
  }
  return best.times * best.length * 2 >= n ? best : Repeats{};
}

}  // namespace foretrace::whatif
