// Steps by repetition on arbitrary sequences: a byte is a name, and how long nothing ran before it. Places come in order and inside
// of the sequence, whatever it is.

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "trace/step_ranges.hpp"

namespace {

void check(const std::vector<std::size_t>& begins, std::size_t size) {
  for (std::size_t i = 0; i < begins.size(); ++i) {
    if (begins[i] >= size || (i > 0 && begins[i] <= begins[i - 1])) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint32_t> names;
  std::vector<foretrace::Ns> rests;
  for (std::size_t i = 0; i < size; ++i) {
    names.push_back(data[i] & 31);
    rests.push_back((data[i] >> 5) * 1'000);
  }
  check(foretrace::trace::repeated_parts(names, rests), size);
  check(foretrace::trace::anchored_parts(names, rests, [](const auto& begins) { return begins.size() > 1; }), size);
  return 0;
}
