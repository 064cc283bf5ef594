#pragma once
// Repeated blocks of a step whose trace names no layers: the same kernels one behind the other, several times.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace foretrace::whatif {

/// `times` runs of `length` items each, the first at `begin`; nothing repeats where `times` is 0.
struct Repeats {
  std::size_t begin = 0, length = 0, times = 0;
};

/// The repetition that covers most of the sequence, of those the shortest; only of `times` runs, where that is given. Runs are at least
/// four items long, there are three or more of them, and they make up half of the sequence.
Repeats find_repeats(const std::vector<std::uint32_t>& sequence, std::size_t times = 0);

}  // namespace foretrace::whatif
