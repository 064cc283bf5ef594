#include "trace/execution_repeat.hpp"

#include <algorithm>

namespace foretrace::trace {
namespace {

// Comparing sequences of names ends after so many names: those of real steps differ within a few.
constexpr std::size_t kMostComparisons = 100'000'000;

std::map<std::uint32_t, std::vector<std::uint32_t>> operations_by_thread(const Trace& trace) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> threads;
  for (std::uint32_t e = 0; e < trace.size(); ++e) {
    if (trace.kind(e) == EventKind::kOp) threads[trace.events.lane[e].value].push_back(e);
  }
  for (auto& [lane, events] : threads) {
    std::stable_sort(events.begin(), events.end(), [&](std::uint32_t a, std::uint32_t b) {
      const Ns x = trace.events.start[a], y = trace.events.start[b];
      return x != y ? x < y : trace.events.duration[a] > trace.events.duration[b];
    });
  }
  return threads;
}

}  // namespace

void repeat_over_steps(const Trace& trace, ObservedOperations& operations) {
  std::size_t compared = 0;
  for (const auto& [lane, events] : operations_by_thread(trace)) {
    const auto observed = [&](std::uint32_t e) { return operations.contains(e); };
    const auto first = std::find_if(events.begin(), events.end(), observed);
    if (first == events.end()) continue;
    const auto last = std::find_if(events.rbegin(), events.rend(), observed).base();
    const auto from = static_cast<std::size_t>(first - events.begin());
    const auto to = static_cast<std::size_t>(last - events.begin());
    const std::size_t length = to - from;
    for (std::size_t at = 0; at + length <= events.size() && compared < kMostComparisons;) {
      if (at < to && from < at + length) {  // the stretch itself is here, or begins before this would end
        at = to;
        continue;
      }
      std::size_t same = 0;
      while (same < length && trace.events.name[events[at + same]] == trace.events.name[events[from + same]]) ++same;
      compared += same + 1;
      if (same < length) {
        ++at;
        continue;
      }
      for (std::size_t i = 0; i < length; ++i) {
        const auto recorded = operations.find(events[from + i]);
        if (recorded != operations.end()) operations.try_emplace(events[at + i], recorded->second);
      }
      at += length;
    }
  }
}

}  // namespace foretrace::trace
