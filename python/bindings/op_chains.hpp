#pragma once
// Which operations of a trace lie inside which: the chain a glob over operations is matched against.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "foretrace/trace/trace.hpp"
#include "foretrace/whatif/draft.hpp"

namespace foretrace::python {

class OpChains {
 public:
  explicit OpChains(const trace::Trace& trace) : trace_(trace), parent_(trace.size(), kNone) {
    const trace::Events& e = trace.events;
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < trace.size(); ++i) {
      if (trace.kind(i) == trace::EventKind::kOp) order.push_back(i);
    }
    // A longer operation of the same start is the outer one.
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      if (e.lane[a] != e.lane[b]) return e.lane[a] < e.lane[b];
      return e.start[a] != e.start[b] ? e.start[a] < e.start[b] : e.duration[a] > e.duration[b];
    });
    std::vector<std::uint32_t> open;
    for (const std::uint32_t i : order) {
      while (!open.empty() && (e.lane[open.back()] != e.lane[i] ||
                               e.start[open.back()] + e.duration[open.back()] < e.start[i] + e.duration[i])) {
        open.pop_back();
      }
      if (!open.empty()) parent_[i] = open.back();
      open.push_back(i);
    }
  }

  /// Of every operation, whether its name or that of one around it matches.
  [[nodiscard]] std::vector<std::int8_t> matching(const std::string& pattern) const {
    std::vector<std::int8_t> names(trace_.strings.size(), kUnknown);
    std::vector<std::int8_t> found(parent_.size(), kUnknown);
    std::vector<std::uint32_t> chain;
    for (std::uint32_t i = 0; i < parent_.size(); ++i) {
      if (trace_.kind(i) != trace::EventKind::kOp) continue;
      std::uint32_t at = i;
      std::int8_t answer = 0;
      for (chain.clear(); at != kNone; at = parent_[at]) {
        if (found[at] != kUnknown) {
          answer = found[at];
          break;
        }
        chain.push_back(at);
      }
      // From the outermost inwards: what lies inside a match is one.
      for (; !chain.empty(); chain.pop_back()) {
        const StringId name = trace_.events.name[chain.back()];
        std::int8_t& known = names[name.index()];
        if (known == kUnknown) known = whatif::glob_match(pattern, trace_.strings[name]) ? 1 : 0;
        answer = static_cast<std::int8_t>(answer | known);
        found[chain.back()] = answer;
      }
    }
    return found;
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFFu;
  static constexpr std::int8_t kUnknown = -1;

  const trace::Trace& trace_;
  std::vector<std::uint32_t> parent_;
};

}  // namespace foretrace::python
